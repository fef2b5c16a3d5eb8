/* A body that stalls, is cut or is short in the middle is resumed with a device destination as with a host one: the same bytes,
 * the same number of requests, and the resumed request asks for what is missing only. */
#include "cuda.h"

struct fault {
  const char *query; /* with one number, of bytes */
  unsigned bytes;
};

static long requests_of(const char *name) {
  char part[112];
  snprintf(part, sizeof part, "/%s ", name);
  return requests_with(part);
}

int main(void) {
  static const struct fault faults[] = {
      {"stall_after=%u&times=1", 30000}, {"reset_after=%u&times=1", 70000}, {"close_after=%u&times=1", 1}};
  CUdeviceptr memory;
  struct sim_cuda_live before;
  cuda_start();
  memory = device_new(MEDIUM);
  before = live_now();
  FOR_EACH_BACKEND(backend) {
    raskio_client_options options = client_options(backend);
    raskio_client *client = NULL;
    raskio_error *error = NULL;
    options.bounce_buffer_size = MEDIUM;
    options.max_pinned_bytes = 2 * MEDIUM;
    options.stall_timeout_ms = 500;
    REQUIRE_OK(raskio_client_new(&options, &client, &error), error);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
      long requests[2];
      for (int device = 0; device < 2; device++) {
        char name[96];
        raskio_object *object;
        /* Another number of bytes each time, in other processes too: the server counts the requests of each target. */
        unsigned bytes = faults[i].bytes + (unsigned)getpid() % 5000 * 4 + each * 2 + (unsigned)device;
        int length = snprintf(name, sizeof name, "medium?");
        snprintf(name + length, sizeof name - (size_t)length, faults[i].query, bytes);
        object = open_sized(client, name, MEDIUM);
        if (device) {
          raskio_read_options cuda = memory_options(RASKIO_MEMORY_CUDA);
          CUDA_OK(cu.set(memory, GUARD_BYTE, MEDIUM));
          CUDA_OK(cu.context_synchronize());
          CHECK_STATUS(device_read(object, 0, memory, MEDIUM, &cuda, NULL), RASKIO_OK);
          check_device(memory, 0, MEDIUM, name);
        } else {
          unsigned char *host = buffer_new(MEDIUM);
          CHECK_STATUS(read_now(object, 0, host, MEDIUM), RASKIO_OK);
          check_buffer(host, 0, MEDIUM, name);
          buffer_free(host);
        }
        requests[device] = requests_of(name);
        raskio_object_release(object);
      }
      if (requests[0] != 2 || requests[1] != 2)
        CHECK_FAILED("%s: %ld requests into host memory and %ld into device memory, expected 2", faults[i].query, requests[0],
                     requests[1]);
    }
    /* What never comes is an error, and nothing of the buffer is kept. */
    {
      raskio_object *object = open_object(client, "medium?status=503");
      raskio_read_options cuda = memory_options(RASKIO_MEMORY_CUDA);
      CHECK_STATUS(device_read(object, 0, memory, MEDIUM, &cuda, &error), RASKIO_ERR_UNAVAILABLE);
      raskio_error_free(error);
      raskio_object_release(object);
    }
    wait_idle(client);
    shut_down(client);
    check_nothing_left(before, "after the shutdown");
  }
  return CHECK_DONE();
}
