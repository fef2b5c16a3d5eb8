/* RASKIO_MEMORY_AUTO asks the driver only if the process has one, and never initialises it for a host read. With one it tells
 * device memory from host memory; what is asked for against the facts is refused before anything is written. */
#include "cuda.h"

static void host_read(raskio_client *client, const char *what) {
  raskio_object *object = open_object(client, "medium");
  raskio_read_options options = memory_options(RASKIO_MEMORY_AUTO);
  unsigned char *buffer = buffer_new(MEDIUM);
  CHECK_STATUS(raskio_read_sync(object, 0, buffer, MEDIUM, &options, NULL, NULL), RASKIO_OK);
  check_buffer(buffer, 0, MEDIUM, what);
  buffer_free(buffer);
  raskio_object_release(object);
}

static void refused(raskio_object *object, void *data, const raskio_read_options *options, const char *what) {
  raskio_error *error = NULL;
  raskio_status status = raskio_read_sync(object, 0, data, SMALL, options, NULL, &error);
  if (status != RASKIO_ERR_INVALID_ARGUMENT) CHECK_FAILED("%s is %s", what, raskio_status_name(status));
  CHECK(strlen(raskio_error_message(error)) > 20);
  raskio_error_free(error);
}

int main(void) {
  raskio_client *clients[2];
  server_url();
  for (int i = 0; i < 2; i++) {
    clients[i] = new_client(BACKENDS[i]);
    host_read(clients[i], "without a driver");
  }
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL) CHECK_FAILED("a host read has loaded the driver");

  cuda_load();
  for (int i = 0; i < 2; i++) host_read(clients[i], "with a driver that is not initialised");
  if (cu.sim_count != NULL) CHECK_EQ(cu.sim_count("cuInit"), 0);

  cuda_start();
  for (int i = 0; i < 2; i++) {
    raskio_object *object = open_object(clients[i], "small");
    raskio_read_options cuda = memory_options(RASKIO_MEMORY_CUDA), automatic = memory_options(RASKIO_MEMORY_AUTO);
    raskio_read_options odd = memory_options(RASKIO_MEMORY_CUDA);
    unsigned char *host = buffer_new(SMALL);
    CUdeviceptr device = device_new(SMALL);
    uint64_t staged;
    host_read(clients[i], "with a driver");
    staged = stats_of(clients[i]).bytes_staged;
    CHECK_EQ(staged, 0);
    CHECK_STATUS(device_read(object, 0, device, SMALL, &automatic, NULL), RASKIO_OK);
    check_device(device, 0, SMALL, "automatic");
    CHECK_EQ(stats_of(clients[i]).bytes_staged, SMALL);

    refused(object, host, &cuda, "CUDA for host memory");
    odd.stream = host;
    refused(object, pointer_to(device), &odd, "a stream without its flag");
    check_untouched(host, SMALL, "a refused read");
    raskio_object_release(object);
    device_free(device);
    buffer_free(host);
  }
  for (int i = 0; i < 2; i++) shut_down(clients[i]);
  return CHECK_DONE();
}
