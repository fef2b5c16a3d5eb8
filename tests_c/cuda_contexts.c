/* Reads into the memory of several contexts (and devices, where there are several) at once put every byte into its place. A
 * context that is destroyed, idle or in the middle of reads, disturbs no other one, and neither does a new context that gets
 * the old one's handle. */
#include "cuda.h"

#define CONTEXTS 3
#define READS 20
#define SIZE 100000

static raskio_client *client;
static raskio_object *object;

static void *new_context(int i) {
  void *context = cuda_context(i % cu.devices);
  CUDA_OK(cu.context_pop(NULL));
  return context;
}

struct reads {
  void *context;
  CUdeviceptr memory[READS];
  struct outcome outcomes[READS];
};

static void start(struct reads *reads, void *context, raskio_object *from) {
  raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
  raskio_error *error = NULL;
  reads->context = context;
  CUDA_OK(cu.context_push(context));
  for (int i = 0; i < READS; i++) reads->memory[i] = device_new(SIZE);
  CUDA_OK(cu.context_pop(NULL));
  for (int i = 0; i < READS; i++) {
    outcome_init(&reads->outcomes[i]);
    REQUIRE_OK(raskio_read(from, (uint64_t)(i * 1000), pointer_to(reads->memory[i]), SIZE, &options, outcome_done,
                           &reads->outcomes[i], NULL, &error), error);
  }
}

static void finish(struct reads *reads, const char *what) {
  for (int i = 0; i < READS; i++) outcome_wait(&reads->outcomes[i], what);
  CUDA_OK(cu.context_push(reads->context));
  for (int i = 0; i < READS; i++) {
    CHECK_STATUS(reads->outcomes[i].status, RASKIO_OK);
    check_device(reads->memory[i], (uint64_t)(i * 1000), SIZE, what);
    device_free(reads->memory[i]);
    outcome_free(&reads->outcomes[i]);
  }
  CUDA_OK(cu.context_pop(NULL));
}

int main(void) {
  static struct reads reads[CONTEXTS];
  void *contexts[CONTEXTS];
  void *first = cuda_start();
  CUDA_OK(cu.context_destroy(first));
  if (cu.sim_speed != NULL) cu.sim_speed(1000, 0);
  FOR_EACH_BACKEND(backend) {
    raskio_object *slow;
    client = new_device_client(backend, 16 << 10, 4);
    object = open_object(client, "medium");
    slow = open_object(client, "medium?rate=400000");
    for (int i = 0; i < CONTEXTS; i++) contexts[i] = new_context(i);
    for (int i = 0; i < CONTEXTS; i++) start(&reads[i], contexts[i], object);
    for (int i = 0; i < CONTEXTS; i++) finish(&reads[i], "three contexts at once");

    /* An idle one goes; the next has its handle, at least with the simulated driver. */
    for (int round = 0; round < 3; round++) {
      CUDA_OK(cu.context_destroy(contexts[1]));
      contexts[1] = new_context(1);
      start(&reads[0], contexts[0], object);
      start(&reads[1], contexts[1], object);
      finish(&reads[0], "a context whose neighbour was replaced");
      finish(&reads[1], "a new context");
    }

    /* One goes in the middle of its reads: these end somehow, and soon. */
    start(&reads[2], contexts[2], slow);
    sleep_ms(100);
    CUDA_OK(cu.context_destroy(contexts[2]));
    contexts[2] = new_context(2);
    start(&reads[0], contexts[0], object);
    finish(&reads[0], "a context whose neighbour went in the middle of reads");
    for (int i = 0; i < READS; i++) {
      outcome_wait(&reads[2].outcomes[i], "a read into a destroyed context");
      if (reads[2].outcomes[i].status != RASKIO_OK && reads[2].outcomes[i].status != RASKIO_ERR_CUDA)
        CHECK_FAILED("a read into a destroyed context: %s", raskio_status_name(reads[2].outcomes[i].status));
      CHECK_EQ(outcome_calls(&reads[2].outcomes[i]), 1);
      outcome_free(&reads[2].outcomes[i]);
    }
    start(&reads[2], contexts[2], object);
    finish(&reads[2], "the context after it");

    raskio_object_release(slow);
    raskio_object_release(object);
    shut_down(client);
    for (int i = 0; i < CONTEXTS; i++) CUDA_OK(cu.context_destroy(contexts[i]));
    if (cu.sim_live != NULL) {
      struct sim_cuda_live none;
      memset(&none, 0, sizeof none);
      check_nothing_left(none, "after the last context");
    }
  }
  return CHECK_DONE();
}
