/* A stream that is being captured is refused, and its capture goes on; and nothing that RaskIO does for other reads, the first
 * of a client included, breaks a capture of the caller's, in whichever mode. */
#include "cuda.h"

static void *stream;

static void end_capture(const char *what) {
  void *graph = NULL;
  CUresult result = cu.capture_end(stream, &graph);
  if (result != CUDA_SUCCESS) CHECK_FAILED("%s: the capture ends with %s", what, cuda_name(result));
  if (graph != NULL) CUDA_OK(cu.graph_destroy(graph));
}

int main(void) {
  struct sim_cuda_live before;
  cuda_start();
  CUDA_OK(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  before = live_now();
  FOR_EACH_BACKEND(backend) {
    CUdeviceptr memory = device_new(MEDIUM);
    raskio_client *client = NULL;
    raskio_object *object;
    raskio_read_options options = memory_options(RASKIO_MEMORY_CUDA), on_stream = stream_options(stream);
    raskio_error *error = NULL;
    raskio_status status;

    CUDA_OK(cu.capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    client = new_client(backend);
    object = open_object(client, "medium");
    status = device_read(object, 0, memory, SMALL, &on_stream, &error);
    if (status != RASKIO_ERR_INVALID_ARGUMENT || strstr(raskio_error_message(error), "captur") == NULL)
      CHECK_FAILED("a capturing stream: %s, \"%s\"", raskio_status_name(status), raskio_error_message(error));
    raskio_error_free(error);
    end_capture("a refused read");
    check_device_untouched(memory, MEDIUM, "a refused read");

    /* The mode that forbids other threads the most. */
    CUDA_OK(cu.capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_STATUS(device_read(object, 0, memory, MEDIUM, &options, NULL), RASKIO_OK);
    end_capture("the first read of a client");
    check_device(memory, 0, MEDIUM, "a read during a capture");

    CUDA_OK(cu.capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK_STATUS(device_read(object, 1, memory, MEDIUM - 1, &options, NULL), RASKIO_OK);
    raskio_client_trim(client);
    raskio_object_release(object);
    shut_down(client);
    end_capture("a trim and a shutdown");
    device_free(memory);
    check_nothing_left(before, "after the shutdown");
  }
  CUDA_OK(cu.stream_destroy(stream));
  return CHECK_DONE();
}
