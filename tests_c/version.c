/* The versions are readable, agree with each other and with the header, and never move. */
#include "support.h"

int main(void) {
  unsigned major, minor, patch;
  int length = 0;
  const char *version = raskio_version();
  REQUIRE(version != NULL);
  CHECK_EQ(sscanf(version, "%u.%u.%u%n", &major, &minor, &patch, &length), 3);
  CHECK(version[length] == '\0' || version[length] == '-');
  CHECK(raskio_version() == version);
  CHECK_EQ(raskio_abi_version() >> 16, RASKIO_ABI_MAJOR);
  CHECK((raskio_abi_version() & 0xffff) >= RASKIO_ABI_MINOR);
  return CHECK_DONE();
}
