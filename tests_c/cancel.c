/* Cancel is prompt at each stage (queued, before the head, in the middle of the body, after the end), calls back exactly
 * once, and leaves the buffer alone afterwards. */
#include "support.h"

/* Cancels a read `after_ms` after its start. */
static void cancel_one(raskio_client *client, const char *url, size_t size, long after_ms, const char *what) {
  raskio_object *object = open_object(client, url);
  unsigned char *buffer = buffer_new(size);
  struct outcome outcome;
  raskio_op *op = NULL;
  double began;
  outcome_init(&outcome);
  CHECK_STATUS(raskio_read(object, 0, buffer, size, NULL, outcome_done, &outcome, &op, NULL), RASKIO_OK);
  sleep_ms(after_ms);
  CHECK_EQ(outcome_calls(&outcome), 0);
  CHECK_STATUS(raskio_op_wait(op, 0), RASKIO_ERR_TIMED_OUT);
  began = now();
  raskio_op_cancel(op);
  raskio_op_cancel(op);
  outcome_wait(&outcome, what);
  if (now() - began > 1.0) CHECK_FAILED("%s: the callback came %.2f s after the cancel", what, now() - began);
  CHECK_STATUS(outcome.status, RASKIO_ERR_CANCELLED);
  CHECK_STATUS(raskio_error_status(outcome.error), RASKIO_ERR_CANCELLED);
  CHECK_STATUS(raskio_op_wait(op, 10000), RASKIO_OK);
  memset(buffer, GUARD_BYTE, size); /* it is ours again */
  raskio_op_cancel(op);
  sleep_ms(100);
  check_untouched(buffer, size, what);
  CHECK_EQ(outcome_calls(&outcome), 1);
  raskio_op_release(op);
  raskio_object_release(object);
  outcome_free(&outcome);
  buffer_free(buffer);
}

static void queued(uint32_t backend) {
  raskio_client_options options = client_options(backend);
  raskio_client *client = NULL;
  raskio_object *stuck;
  raskio_op *op = NULL;
  struct outcome outcome;
  unsigned char *buffer = buffer_new(SMALL);
  raskio_error *error = NULL;
  options.num_threads = 1;
  options.max_concurrent_requests = 1;
  REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
  stuck = open_object(client, "small?stall=1");
  outcome_init(&outcome);
  CHECK_STATUS(raskio_read(stuck, 0, buffer, SMALL, NULL, outcome_done, &outcome, &op, NULL), RASKIO_OK);
  sleep_ms(100);
  cancel_one(client, "small", SMALL, 100, "a queued read");
  CHECK_EQ(outcome_calls(&outcome), 0);
  raskio_op_cancel(op);
  outcome_wait(&outcome, "the read before it");
  CHECK_STATUS(outcome.status, RASKIO_ERR_CANCELLED);
  check_untouched(buffer, SMALL, "a read without an answer");
  check_works(client, "after the cancels");
  raskio_op_release(op);
  raskio_object_release(stuck);
  outcome_free(&outcome);
  shut_down(client);
  buffer_free(buffer);
}

int main(void) {
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_client(backend);
    raskio_object *object = open_object(client, "small");
    unsigned char *buffer = buffer_new(SMALL);
    struct outcome outcome;
    raskio_op *op = NULL;

    cancel_one(client, "small?stall=1", SMALL, 100, "a read without an answer");
    cancel_one(client, "medium?stall_after=70000", MEDIUM, 200, "a read that stopped in its body");
    cancel_one(client, "large?rate=1000000", LARGE, 200, "a read in progress, of many requests");
    queued(backend);

    /* After the end a cancel does nothing. */
    outcome_init(&outcome);
    CHECK_STATUS(raskio_read(object, 0, buffer, SMALL, NULL, outcome_done, &outcome, &op, NULL), RASKIO_OK);
    CHECK_STATUS(raskio_op_wait(op, 20000), RASKIO_OK);
    raskio_op_cancel(op);
    sleep_ms(50);
    CHECK_EQ(outcome_calls(&outcome), 1);
    CHECK_STATUS(outcome.status, RASKIO_OK);
    check_buffer(buffer, 0, SMALL, "a read cancelled too late");
    raskio_op_release(op);
    outcome_free(&outcome);
    raskio_object_release(object);
    buffer_free(buffer);
    shut_down(client);
  }
  return CHECK_DONE();
}
