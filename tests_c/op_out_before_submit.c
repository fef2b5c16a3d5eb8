/* *op_out is written before the work is submitted and not touched afterwards: the callback may use the handle, and may free
 * the memory in which the outputs lie, while the call that started it has not returned yet. */
#include "support.h"

#define ROUNDS 300

struct call {
  raskio_op *op;
  raskio_error *error;
  unsigned char data[16];
};

static int finished;

static void done(void *user_data, const raskio_result *result) {
  struct call *call = (struct call *)user_data;
  CHECK(result->status == RASKIO_OK || result->status == RASKIO_ERR_NOT_FOUND);
  CHECK(call->op != NULL);
  CHECK(call->error == NULL);
  raskio_op_cancel(call->op);
  raskio_op_release(raskio_op_acquire(call->op));
  CHECK_STATUS(raskio_op_wait(call->op, 0), RASKIO_ERR_WOULD_DEADLOCK);
  raskio_op_release(call->op);
  memset(call, 0xEE, sizeof *call);
  free(call);
  __atomic_add_fetch(&finished, 1, __ATOMIC_SEQ_CST);
}

int main(void) {
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_client(backend);
    raskio_object *small = open_object(client, "small"), *missing = open_object(client, "small?status=404");
    double limit = now() + 60;
    finished = 0;
    for (int i = 0; i < ROUNDS; i++) {
      struct call *call = (struct call *)calloc(1, sizeof *call);
      raskio_status status = RASKIO_OK;
      REQUIRE(call != NULL);
      call->error = (raskio_error *)call; /* must be NULL by the time of the callback */
      switch (i % 3) {
        case 0: status = raskio_read(small, 0, NULL, 0, NULL, done, call, &call->op, &call->error); break;
        case 1: status = raskio_read(missing, 0, call->data, 16, NULL, done, call, &call->op, &call->error); break;
        case 2: status = raskio_object_stat(small, NULL, done, call, &call->op, &call->error); break;
      }
      CHECK_STATUS(status, RASKIO_OK);
    }
    while (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) < ROUNDS && now() < limit) sleep_ms(1);
    CHECK_EQ(__atomic_load_n(&finished, __ATOMIC_SEQ_CST), ROUNDS);
    raskio_object_release(small);
    raskio_object_release(missing);
    shut_down(client);
  }
  return CHECK_DONE();
}
