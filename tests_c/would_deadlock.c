/* A blocking call inside a callback returns WOULD_DEADLOCK and does nothing; the same call outside works. */
#include "support.h"

static raskio_client *client;
static raskio_object *object;
static raskio_op *slot;
static unsigned char *buffer;

static void blocking_calls(void) {
  uint64_t number = 77;
  raskio_error *error = NULL;
  CHECK_ERROR(raskio_read_sync(object, 0, buffer, SMALL, NULL, &number, &error), RASKIO_ERR_WOULD_DEADLOCK, error,
              "callback");
  CHECK_ERROR(raskio_object_stat_sync(object, &number, &error), RASKIO_ERR_WOULD_DEADLOCK, error, "callback");
  CHECK_ERROR(raskio_client_shut_down(client, 0, &error), RASKIO_ERR_WOULD_DEADLOCK, error, "callback");
  CHECK_STATUS(raskio_op_wait(slot, 0), RASKIO_ERR_WOULD_DEADLOCK);
  CHECK_STATUS(raskio_op_wait(slot, RASKIO_UNLIMITED), RASKIO_ERR_WOULD_DEADLOCK);
  CHECK_EQ(number, 77);
}

static void done(void *user_data, const raskio_result *result) {
  CHECK_STATUS(result->status, RASKIO_OK);
  blocking_calls();
  outcome_done(user_data, result);
}

static void last(void *user_data) {
  blocking_calls();
  __atomic_add_fetch((int *)user_data, 1, __ATOMIC_SEQ_CST);
}

int main(void) {
  FOR_EACH_BACKEND(backend) {
    raskio_client_options options = client_options(backend);
    struct outcome outcome;
    uint64_t size = 0;
    int shut = 0;
    raskio_error *error = NULL;
    options.on_shut_down = last;
    options.user_data = &shut;
    REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
    object = open_object(client, "small");
    buffer = buffer_new(SMALL);
    outcome_init(&outcome);
    CHECK_STATUS(raskio_read(object, 0, buffer, SMALL, NULL, done, &outcome, &slot, NULL), RASKIO_OK);
    outcome_wait(&outcome, "the read");
    CHECK_STATUS(raskio_op_wait(slot, RASKIO_UNLIMITED), RASKIO_OK);
    CHECK_STATUS(raskio_op_wait(slot, 0), RASKIO_OK);
    check_buffer(buffer, 0, SMALL, "the read");
    CHECK_STATUS(read_now(object, 0, buffer, SMALL), RASKIO_OK);
    CHECK_STATUS(raskio_object_stat_sync(object, &size, NULL), RASKIO_OK);
    CHECK_EQ(size, SMALL);
    REQUIRE_OK(raskio_client_shut_down(client, 20000, &error), error);
    CHECK_EQ(__atomic_load_n(&shut, __ATOMIC_SEQ_CST), 1);
    REQUIRE_OK(raskio_client_shut_down(client, RASKIO_UNLIMITED, &error), error);
    CHECK_EQ(__atomic_load_n(&shut, __ATOMIC_SEQ_CST), 1);
    raskio_op_release(slot);
    raskio_object_release(object);
    raskio_client_release(client);
    outcome_free(&outcome);
    buffer_free(buffer);
  }
  return CHECK_DONE();
}
