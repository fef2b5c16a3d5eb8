/* No driver, a driver without a device, or one that lacks a function that RaskIO needs: host reads work, and device reads say
 * what is missing. With an argument the driver is expected, and the argument is in the message. */
#include "support.h"

#include <dlfcn.h>

int main(int argc, char **argv) {
  const char *expected = argc > 1 ? argv[1] : "libcuda.so.1";
  if (argc == 1 && dlopen("libcuda.so.1", RTLD_NOW) != NULL) SKIP("there is a libcuda.so.1 here");
  FOR_EACH_BACKEND(backend) {
    raskio_client *client = new_client(backend);
    raskio_object *object = open_object(client, "small");
    raskio_read_options options;
    unsigned char *buffer = buffer_new(SMALL);
    raskio_error *error = NULL;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    check_works(client, "before");
    /* The second time nothing has changed. */
    for (int i = 0; i < 2; i++) {
      options.memory = RASKIO_MEMORY_CUDA;
      raskio_status status = raskio_read_sync(object, 0, buffer, SMALL, &options, NULL, &error);
      if (status != RASKIO_ERR_UNSUPPORTED && status != RASKIO_ERR_CUDA)
        CHECK_FAILED("a device read is %s", raskio_status_name(status));
      if (strstr(raskio_error_message(error), expected) == NULL)
        CHECK_FAILED("\"%s\" does not contain \"%s\"", raskio_error_message(error), expected);
      raskio_error_free(error);
      error = NULL;
      check_untouched(buffer, SMALL, "a device read without a device");
    }
    options.memory = RASKIO_MEMORY_AUTO;
    CHECK_STATUS(raskio_read_sync(object, 0, buffer, SMALL, &options, NULL, NULL), RASKIO_OK);
    check_buffer(buffer, 0, SMALL, "memory that is found out");
    check_works(client, "after");
    buffer_free(buffer);
    raskio_object_release(object);
    shut_down(client);
  }
  return CHECK_DONE();
}
