// Reads a whole object in four parts at once, each a std::future: read_cpp URL [CRC32]
#include "crc32.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <raskio.hpp>
#include <vector>

int main(int argc, char **argv) try {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s URL [CRC32]\n", argv[0]);
    return 2;
  }
  raskio::client_options options;
  options.backend = RASKIO_BACKEND_MULTI_POLL;
  raskio::client client(options);
  raskio::object object = client.open(argv[1]);
  std::vector<unsigned char> data(object.stat_sync());

  const std::size_t part = data.size() / 4 + 1;
  std::vector<std::future<std::size_t>> parts;
  for (std::size_t offset = 0; offset < data.size(); offset += part) {
    parts.push_back(object.read(offset, data.data() + offset, std::min(part, data.size() - offset)));
  }
  std::size_t total = 0;
  for (std::future<std::size_t> &future : parts) {
    total += future.get(); // throws raskio::error
  }
  const std::uint32_t crc = crc32_update(0, data.data(), data.size());
  std::printf("%zu bytes, crc32 %08x\n", total, static_cast<unsigned>(crc));
  if (argc == 3 && std::strtoul(argv[2], nullptr, 16) != crc) {
    std::fprintf(stderr, "wrong bytes: the checksum should be %s\n", argv[2]);
    return 1;
  }
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
