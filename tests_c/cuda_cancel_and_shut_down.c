/* Cancel and shutdown with copies pending: each operation calls back exactly once; once it has, nothing is written into its
 * memory any more; and while a copy is still pending there is no callback, not even when the shutdown's time is over. */
#include "cuda.h"

#define READS 8
#define SIZE 200000

static CUdeviceptr memory[READS];
static struct outcome outcomes[READS];
static raskio_op *ops[READS];

static void start(raskio_client *client, const char *name) {
  raskio_object *object = open_object(client, name);
  raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
  raskio_error *error = NULL;
  for (int i = 0; i < READS; i++) {
    outcome_init(&outcomes[i]);
    REQUIRE_OK(raskio_read(object, 0, pointer_to(memory[i]), SIZE, &options, outcome_done, &outcomes[i], &ops[i], &error),
               error);
  }
  raskio_object_release(object);
}

/* The memory is the caller's again, and stays as the caller leaves it. */
static void finish(raskio_status allowed, const char *what) {
  for (int i = 0; i < READS; i++) {
    outcome_wait(&outcomes[i], what);
    if (outcomes[i].status != allowed && outcomes[i].status != RASKIO_OK)
      CHECK_FAILED("%s: read %d ends with %s", what, i, raskio_status_name(outcomes[i].status));
    if (outcomes[i].status == RASKIO_OK) check_device(memory[i], 0, SIZE, what);
    CUDA_OK(cu.set(memory[i], GUARD_BYTE, SIZE));
  }
  CUDA_OK(cu.context_synchronize());
  sleep_ms(200);
  for (int i = 0; i < READS; i++) {
    check_device_untouched(memory[i], SIZE, what);
    CHECK_EQ(outcome_calls(&outcomes[i]), 1);
    raskio_op_release(ops[i]);
    outcome_free(&outcomes[i]);
  }
}

int main(void) {
  struct sim_cuda_live before;
  cuda_start();
  for (int i = 0; i < READS; i++) memory[i] = device_new(SIZE);
  before = live_now();
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_device_client(backend, 64 << 10, 5);
    raskio_error *error = NULL;

    /* Cancelled at once, in the middle, and late. */
    if (cu.sim_speed != NULL) cu.sim_speed(20000, 0);
    for (long after = 0; after <= 120; after += 30) {
      start(client, after % 60 == 0 ? "medium" : "medium?rate=2000000");
      sleep_ms(after);
      for (int i = 0; i < READS; i++) raskio_op_cancel(ops[i]);
      finish(RASKIO_ERR_CANCELLED, "a cancel");
    }
    wait_idle(client);
    check_device_works(client, "after the cancels");

    /* Copies that do not end hold the callbacks back, whatever the shutdown's limit. */
    if (cu.sim_hold_all != NULL) {
      int early = 0;
      cu.sim_speed(0, 0);
      cu.sim_hold_all(1);
      start(client, "medium");
      for (int i = 0; i < 500 && live_now().pending == 0; i++) sleep_ms(10);
      CHECK(live_now().pending > 0);
      CHECK_ERROR(raskio_client_shut_down(client, 300, &error), RASKIO_ERR_TIMED_OUT, error, NULL);
      /* The reads whose copies are pending are among them; the others may have ended. */
      for (int i = 0; i < READS; i++) early += outcome_calls(&outcomes[i]);
      CHECK(early < READS);
      cu.sim_hold_all(0);
    } else {
      start(client, "medium");
    }
    CHECK_ERROR(raskio_client_shut_down(client, 20000, &error), RASKIO_OK, error, NULL);
    for (int i = 0; i < READS; i++) CHECK_EQ(outcome_calls(&outcomes[i]), 1);
    finish(RASKIO_ERR_SHUT_DOWN, "a shutdown");
    raskio_client_release(client);
    check_nothing_left(before, "after the shutdown");
  }
  return CHECK_DONE();
}
