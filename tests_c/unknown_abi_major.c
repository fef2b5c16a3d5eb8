/* A library that does not have the major version asked for says so with NULL. */
#include "support.h"

int main(void) {
  CHECK(raskio_get_api(RASKIO_ABI_MAJOR) != NULL);
  CHECK(raskio_get_api(RASKIO_ABI_MAJOR + 1) == NULL);
  CHECK(raskio_get_api(RASKIO_ABI_MAJOR - 1u) == NULL);
  CHECK(raskio_get_api(UINT32_MAX) == NULL);
  CHECK(raskio_get_api(1u << 16) == NULL);
  return CHECK_DONE();
}
