/* A callback never runs inside the call that started its operation: not for reads of nothing, not when the operation is
 * already over, not when it was started from another callback. */
#include "support.h"

static __thread int starting; /* this thread is inside a call that starts an operation */
static int pending;
static raskio_object *small, *missing;
static unsigned char *sink;

static void leave(void) { __atomic_sub_fetch(&pending, 1, __ATOMIC_SEQ_CST); }

static void inner_done(void *user_data, const raskio_result *result) {
  (void)user_data;
  (void)result;
  CHECK(!starting);
  leave();
}

static raskio_status start(raskio_object *object, uint64_t size, raskio_done_fn done) {
  raskio_status status;
  raskio_op *op = NULL;
  __atomic_add_fetch(&pending, 1, __ATOMIC_SEQ_CST);
  starting = 1;
  status = raskio_read(object, 0, size == 0 ? NULL : sink, size, NULL, done, NULL, &op, NULL);
  raskio_op_cancel(op);
  raskio_op_release(op);
  starting = 0;
  if (status != RASKIO_OK) leave();
  return status;
}

static void outer_done(void *user_data, const raskio_result *result) {
  (void)user_data;
  (void)result;
  CHECK(!starting);
  CHECK_STATUS(start(small, 0, inner_done), RASKIO_OK);
  CHECK(!starting);
  leave();
}

static void stat_done(void *user_data, const raskio_result *result) {
  CHECK_STATUS(result->status, RASKIO_OK);
  inner_done(user_data, result);
}

int main(void) {
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_client(backend);
    double limit = now() + 60;
    sink = buffer_new(SMALL);
    small = open_object(client, "small");
    missing = open_object(client, "small?status=404");
    for (int i = 0; i < 100; i++) {
      CHECK_STATUS(start(small, 0, outer_done), RASKIO_OK);
      CHECK_STATUS(start(missing, 1, outer_done), RASKIO_OK);
      __atomic_add_fetch(&pending, 1, __ATOMIC_SEQ_CST);
      starting = 1;
      CHECK_STATUS(raskio_object_stat(small, NULL, stat_done, NULL, NULL, NULL), RASKIO_OK);
      starting = 0;
    }
    while (__atomic_load_n(&pending, __ATOMIC_SEQ_CST) > 0 && now() < limit) sleep_ms(1);
    CHECK_EQ(__atomic_load_n(&pending, __ATOMIC_SEQ_CST), 0);
    raskio_object_release(small);
    raskio_object_release(missing);
    shut_down(client);
    buffer_free(sink);
  }
  return CHECK_DONE();
}
