/* Reads an object with a library that is opened at run time, through its one table of functions:
 *   plugin LIBRARY URL [CRC32]
 * Only the header is needed to build this; nothing of RaskIO is linked. */
#include "crc32.h"
#include <dlfcn.h>
#include <inttypes.h>
#include <raskio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const raskio_api *api, raskio_error *error) {
  fprintf(stderr, "%s\n", error ? api->error_message(error) : "failed without a message");
  api->error_free(error);
  return 1;
}

int main(int argc, char **argv) {
  if (argc < 3 || argc > 4) {
    fprintf(stderr, "usage: %s LIBRARY URL [CRC32]\n", argv[0]);
    return 2;
  }
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  raskio_get_api_fn get_api;
  void *symbol = dlsym(library, "raskio_get_api");
  memcpy(&get_api, &symbol, sizeof get_api); /* ISO C has no cast from an object to a function pointer */
  const raskio_api *api = symbol ? get_api(RASKIO_ABI_MAJOR) : NULL;
  if (api == NULL) {
    fprintf(stderr, "%s is no RaskIO with ABI %u\n", argv[1], RASKIO_ABI_MAJOR);
    return 1;
  }
  /* The table grows at its end: an older library of this major version may lack what the header has. */
  if (!RASKIO_API_HAS(api, read_sync)) {
    fprintf(stderr, "RaskIO %s is too old for this program\n", api->version());
    return 1;
  }

  raskio_client_options options = {.struct_size = sizeof options, .backend = RASKIO_BACKEND_MULTI_POLL};
  raskio_client *client = NULL;
  raskio_object *object = NULL;
  raskio_error *error = NULL;
  uint64_t size = 0;
  if (api->client_new(&options, &client, &error) != RASKIO_OK) return failed(api, error);
  if (api->object_open(client, argv[2], NULL, &object, &error) != RASKIO_OK) return failed(api, error);
  if (api->object_stat_sync(object, &size, &error) != RASKIO_OK) return failed(api, error);
  unsigned char *data = malloc(size ? size : 1);
  if (data == NULL) return failed(api, NULL);
  if (api->read_sync(object, 0, data, size, NULL, NULL, &error) != RASKIO_OK) return failed(api, error);
  uint32_t crc = crc32_update(0, data, size);
  printf("RaskIO %s read %" PRIu64 " bytes, crc32 %08" PRIx32 "\n", api->version(), size, crc);

  free(data);
  api->object_release(object);
  api->client_release(client);
  dlclose(library); /* the code stays mapped: RaskIO's threads may still be on their way out */
  if (argc == 4 && strtoul(argv[3], NULL, 16) != crc) {
    fprintf(stderr, "wrong bytes: the checksum should be %s\n", argv[3]);
    return 1;
  }
  return 0;
}
