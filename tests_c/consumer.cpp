// Built by the consumer projects through the C++ layer.
#include <cstdio>
#include <raskio.hpp>

int main() {
  try {
    raskio::client client;
    client.open("ftp://example.invalid/object");
    std::fprintf(stderr, "an ftp:// URL was opened\n");
    return 1;
  } catch (const raskio::error &error) {
    if (error.status() != RASKIO_ERR_UNSUPPORTED && error.status() != RASKIO_ERR_INVALID_ARGUMENT) {
      std::fprintf(stderr, "unexpected error: %s\n", error.what());
      return 1;
    }
  }
  std::printf("%s\n", raskio_version());
  return 0;
}
