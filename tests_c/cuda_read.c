/* A read into device memory gives the bytes that one into host memory gives, nothing beside them is written, and the callback
 * means that they are there: on both backends, at odd offsets, of one byte and of many bounce buffers, with requests larger
 * than a bounce buffer. Pinned memory stays under its limit and is given back. */
#include "cuda.h"

#define BUFFER (256u << 10)
#define BUFFERS 4

static void one(raskio_client *client, const char *name, uint64_t offset, size_t size, uint64_t task_size, uint32_t memory) {
  raskio_object *object = open_object(client, name);
  raskio_read_options options = memory_options(memory);
  CUdeviceptr device = device_new(size);
  unsigned char *host = buffer_new(size), *copy;
  char what[128];
  options.task_size = task_size;
  snprintf(what, sizeof what, "%s %llu+%zu, task_size %llu, memory %u", name, (unsigned long long)offset, size,
           (unsigned long long)task_size, memory);
  CHECK_STATUS(device_read(object, offset, device, size, &options, NULL), RASKIO_OK);
  check_device(device, offset, size, what);
  CHECK_STATUS(read_now(object, offset, host, size), RASKIO_OK);
  copy = device_copy(device, size);
  if (memcmp(copy, host, size) != 0) CHECK_FAILED("%s: device and host memory differ", what);
  buffer_free(copy);
  buffer_free(host);
  device_free(device);
  raskio_object_release(object);
}

/* In the callback the bytes are in device memory already, and the callback may ask CUDA. */
struct seen {
  struct outcome outcome;
  void *context;
  CUdeviceptr memory;
};

static void look(void *user_data, const raskio_result *result) {
  struct seen *seen = (struct seen *)user_data;
  CHECK_STATUS(result->status, RASKIO_OK);
  CUDA_OK(cu.context_push(seen->context));
  check_device(seen->memory, 0, MEDIUM, "inside the callback");
  CUDA_OK(cu.context_pop(NULL));
  outcome_done(&seen->outcome, result);
}

int main(void) {
  void *context = cuda_start();
  struct sim_cuda_live before = live_now();
  if (cu.sim_speed != NULL) cu.sim_speed(2000, 0);
  FOR_EACH_BACKEND(backend) {
    static const uint32_t memories[2] = {RASKIO_MEMORY_CUDA, RASKIO_MEMORY_AUTO};
    raskio_client *client = new_device_client(backend, BUFFER, BUFFERS);
    raskio_object *object = open_object(client, "medium");
    raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
    raskio_stats stats;
    struct seen seen;
    raskio_error *error = NULL;
    for (int m = 0; m < 2; m++) {
      one(client, "small", 0, SMALL, 0, memories[m]);
      one(client, "small", 99, 1, 0, memories[m]);
      one(client, "small", 3, 5, 2, memories[m]);
      one(client, "medium", 1, MEDIUM - 2, 0, memories[m]);
      one(client, "medium", 77777, 300001, 10007, memories[m]);
      one(client, "large", 12345, (8u << 20) + 1, 3 * BUFFER + 1, memories[m]);
    }
    seen.context = context;
    seen.memory = device_new(MEDIUM);
    outcome_init(&seen.outcome);
    REQUIRE_OK(raskio_read(object, 0, pointer_to(seen.memory), MEDIUM, &options, look, &seen, NULL, &error), error);
    outcome_wait(&seen.outcome, "the read");
    outcome_free(&seen.outcome);
    device_free(seen.memory);

    CHECK_STATUS(device_read(object, 0, 0, 0, &options, NULL), RASKIO_OK);
    stats = wait_idle(client);
    CHECK_EQ(stats.bytes_staged, 2 * (SMALL + 1 + 5 + MEDIUM - 2 + 300001 + (8u << 20) + 1) + MEDIUM);
    CHECK(stats.pinned_bytes > 0 && stats.pinned_bytes <= BUFFER * BUFFERS);
    CHECK(stats.bounce_buffers_total > 0 && stats.bounce_buffers_total <= BUFFERS);
    if (cu.sim_live != NULL) CHECK_EQ(live_now().pinned_bytes - before.pinned_bytes, stats.pinned_bytes);

    /* Trim is a hint that is taken soon. */
    raskio_client_trim(client);
    for (int i = 0; i < 500 && stats.pinned_bytes > 0; i++) {
      sleep_ms(10);
      stats = stats_of(client);
    }
    CHECK_EQ(stats.pinned_bytes, 0);
    CHECK_EQ(stats.bounce_buffers_total, 0);
    check_device_works(client, "after a trim");
    raskio_object_release(object);
    shut_down(client);
    check_nothing_left(before, "after the shutdown");
  }
  return CHECK_DONE();
}
