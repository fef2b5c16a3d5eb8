/* At most max_free_events events are kept for later in each context; the others are destroyed when their work is done. Trim and
 * shutdown give all of them back. */
#include "cuda.h"

#define KEPT 2
#define READS 200
#define SIZE 20000

static raskio_object *object;

static void many(CUdeviceptr memory) {
  static struct outcome outcomes[READS];
  raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
  raskio_error *error = NULL;
  for (int i = 0; i < READS; i++) {
    outcome_init(&outcomes[i]);
    REQUIRE_OK(raskio_read(object, (uint64_t)i, pointer_to(memory), SIZE, &options, outcome_done, &outcomes[i], NULL, &error),
               error);
  }
  for (int i = 0; i < READS; i++) {
    outcome_wait(&outcomes[i], "a read");
    CHECK_STATUS(outcomes[i].status, RASKIO_OK);
    outcome_free(&outcomes[i]);
  }
}

int main(void) {
  CUdeviceptr memory[2];
  struct sim_cuda_live before;
  cuda_start();
  memory[0] = device_new(SIZE);
  cuda_context(0); /* now the current one */
  memory[1] = device_new(SIZE);
  before = live_now();
  if (cu.sim_speed != NULL) cu.sim_speed(500, 0);
  FOR_EACH_BACKEND(backend) {
    raskio_client_options options = client_options(backend);
    raskio_client *client = NULL;
    raskio_error *error = NULL;
    raskio_stats stats;
    options.num_threads = 16;
    options.bounce_buffer_size = SIZE;
    options.max_free_events = KEPT;
    REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
    object = open_object(client, "medium");
    for (int round = 1; round <= 2; round++) {
      many(memory[0]);
      stats = wait_idle(client);
      CHECK(stats.events_total >= 1 && stats.events_total <= KEPT);
      if (cu.sim_live != NULL) CHECK_EQ(live_now().events - before.events, stats.events_total);
    }
    many(memory[1]);
    stats = wait_idle(client);
    CHECK(stats.events_total >= 2 && stats.events_total <= 2 * KEPT);

    raskio_client_trim(client);
    for (int i = 0; i < 500 && stats.events_total > 0; i++) {
      sleep_ms(10);
      stats = stats_of(client);
    }
    CHECK_EQ(stats.events_total, 0);
    CHECK_EQ(live_now().events, before.events);
    many(memory[0]);
    raskio_object_release(object);
    shut_down(client);
    check_nothing_left(before, "after the shutdown");
  }
  return CHECK_DONE();
}
