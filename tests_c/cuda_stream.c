/* RASKIO_READ_ON_STREAM: the copies are ordered on the caller's stream. While that stream does not go on, the read is not done,
 * holds up no other one, and is cancelled by nobody; work queued before it comes before, work queued after the callback after. */
#include "cuda.h"

#define BUFFER (64u << 10)
#define BUFFERS 4

static void *stream;

static void ordered(raskio_client *client) {
  raskio_object *object = open_object(client, "medium");
  raskio_read_options on_stream = stream_options(stream), plain = memory_options(RASKIO_MEMORY_CUDA);
  CUdeviceptr memory = device_new(2 * BUFFER), other = device_new(SMALL);
  struct gate gate;
  struct outcome outcome;
  raskio_error *error = NULL;
  gate_close(&gate, stream);
  CUDA_OK(cu.set_async(memory, 0, 2 * BUFFER, stream));
  outcome_init(&outcome);
  REQUIRE_OK(raskio_read(object, 5, pointer_to(memory), 2 * BUFFER, &on_stream, outcome_done, &outcome, NULL, &error), error);
  /* The blocked read holds two of four buffers; these get the others. */
  for (int i = 0; i < 50; i++) {
    CHECK_STATUS(device_read(object, (uint64_t)i, other, SMALL, &plain, NULL), RASKIO_OK);
    CHECK_EQ(outcome_calls(&outcome), 0);
  }
  /* check_device would wait for the blocked stream where that is not simulated; the last of these is looked at below. */
  gate_open(&gate);
  outcome_wait(&outcome, "the read on the stream");
  CHECK_STATUS(outcome.status, RASKIO_OK);
  check_device(memory, 5, 2 * BUFFER, "the read on the stream");
  check_device(other, 49, SMALL, "a read beside it");
  CUDA_OK(cu.set_async(memory, GUARD_BYTE, 2 * BUFFER, stream));
  CUDA_OK(cu.stream_synchronize(stream));
  check_device_untouched(memory, 2 * BUFFER, "after the callback");
  outcome_free(&outcome);
  wait_idle(client);
  device_free(other);
  device_free(memory);
  raskio_object_release(object);
}

/* Stream-ordered memory may be read into before its allocation was reached, on its own stream. */
static void stream_ordered_memory(raskio_client *client) {
  raskio_object *object = open_object(client, "medium");
  raskio_read_options on_stream = stream_options(stream);
  CUdeviceptr memory = 0;
  unsigned char *host = buffer_new(MEDIUM);
  CUDA_OK(cu.mem_alloc_async(&memory, MEDIUM, stream));
  CHECK_STATUS(device_read(object, 0, memory, MEDIUM, &on_stream, NULL), RASKIO_OK);
  CUDA_OK(cu.to_host(host, memory, MEDIUM));
  check_buffer(host, 0, MEDIUM, "stream-ordered memory");
  CUDA_OK(cu.mem_free_async(memory, stream));
  CUDA_OK(cu.stream_synchronize(stream));
  buffer_free(host);
  raskio_object_release(object);
}

static void legacy_stream(raskio_client *client) {
  raskio_object *object = open_object(client, "medium");
  raskio_read_options on_stream = stream_options(NULL);
  CUdeviceptr memory = device_new(MEDIUM);
  CUDA_OK(cu.set_async(memory, 0, MEDIUM, NULL));
  CHECK_STATUS(device_read(object, 0, memory, MEDIUM, &on_stream, NULL), RASKIO_OK);
  check_device(memory, 0, MEDIUM, "the legacy stream");
  device_free(memory);
  raskio_object_release(object);
}

int main(void) {
  struct sim_cuda_live before;
  cuda_start();
  CUDA_OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  before = live_now();
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_device_client(backend, BUFFER, BUFFERS);
    /* Everything that is made once is made, all four buffers too: with a real driver some of it waits for all streams. */
    legacy_stream(client);
    check_device_works(client, "before");
    ordered(client);
    stream_ordered_memory(client);
    shut_down(client);
    check_nothing_left(before, "after the shutdown");
  }
  CUDA_OK(cu.stream_destroy(stream));
  return CHECK_DONE();
}
