/* Two bounce buffers and a thousand reads: all complete, in whatever order, while a stream of the caller's is busy all the time
 * and host reads of the same client go on beside them. */
#include "cuda.h"

#define READS 1000
#define SIZE 4096
#define HOST_READS 50

static int left, wrong;

static void done(void *user_data, const raskio_result *result) {
  (void)user_data;
  if (result->status != RASKIO_OK || result->bytes != SIZE) __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
  __atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST);
}

int main(void) {
  void *stream = NULL, *pinned = NULL;
  CUdeviceptr memory, scratch;
  struct sim_cuda_live before;
  cuda_start();
  memory = device_new((size_t)READS * SIZE);
  scratch = device_new(MEDIUM);
  CUDA_OK(cu.host_alloc(&pinned, MEDIUM, 0));
  memset(pinned, 1, MEDIUM);
  CUDA_OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  before = live_now();
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_device_client(backend, SIZE, 2);
    raskio_object *object = open_object(client, "medium");
    raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA);
    raskio_error *error = NULL;
    unsigned char *host = buffer_new(MEDIUM);
    double began = now();
    raskio_stats stats;
    if (cu.sim_speed != NULL) cu.sim_speed(200, 0);
    left = READS;
    wrong = 0;
    for (int i = 0; i < READS; i++) {
      REQUIRE_OK(raskio_read(object, (uint64_t)(i % 256) * SIZE, pointer_to(memory + (CUdeviceptr)i * SIZE), SIZE, &options, done,
                             NULL, NULL, &error), error);
      if (i % 10 == 0) CUDA_OK(cu.to_device_async(scratch, pinned, MEDIUM, stream));
    }
    /* A device read that waits for a buffer is in nobody's way. */
    for (int i = 0; i < HOST_READS; i++) CHECK_STATUS(read_now(object, 0, host, SMALL), RASKIO_OK);
    check_buffer(host, 0, SMALL, "a host read beside them");
    while (__atomic_load_n(&left, __ATOMIC_SEQ_CST) > 0 && now() - began < 60) {
      CUDA_OK(cu.to_device_async(scratch, pinned, MEDIUM, stream));
      sleep_ms(10);
    }
    CHECK_EQ(__atomic_load_n(&left, __ATOMIC_SEQ_CST), 0);
    CHECK_EQ(wrong, 0);
    CUDA_OK(cu.stream_synchronize(stream));
    for (int i = 0; i < READS; i += 37) {
      unsigned char *copy = buffer_new(SIZE);
      CUDA_OK(cu.to_host(copy, memory + (CUdeviceptr)i * SIZE, SIZE));
      check_buffer(copy, (uint64_t)(i % 256) * SIZE, SIZE, "one of the thousand");
      buffer_free(copy);
    }
    stats = wait_idle(client);
    CHECK(stats.bounce_buffers_total <= 2);
    CHECK(stats.pinned_bytes <= 2 * SIZE);
    CHECK(stats.bounce_buffer_waits > 0);
    raskio_object_release(object);
    buffer_free(host);
    shut_down(client);
    check_nothing_left(before, "after the shutdown");
  }
  return CHECK_DONE();
}
