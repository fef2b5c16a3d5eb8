/* Built by the consumer projects: the library that was linked is the one whose header was compiled. */
#include <raskio.h>
#include <stdio.h>

int main(void) {
  raskio_client *client = NULL;
  raskio_error *error = NULL;
  uint32_t abi = raskio_abi_version();
  if (abi >> 16 != RASKIO_ABI_MAJOR || (abi & 0xffff) < RASKIO_ABI_MINOR) {
    fprintf(stderr, "library ABI %u.%u, header %u.%u\n", abi >> 16, abi & 0xffff, RASKIO_ABI_MAJOR, RASKIO_ABI_MINOR);
    return 1;
  }
  if (raskio_client_new(NULL, &client, &error) != RASKIO_OK) {
    fprintf(stderr, "no client: %s\n", raskio_error_message(error));
    raskio_error_free(error);
    return 1;
  }
  raskio_client_release(client);
  printf("%s\n", raskio_version());
  return 0;
}
