// Reads an object of 1,000 bytes at URL by an endpoint of KvikIO's own, and by one that a program has made of it. Prints who
// did it: R for RaskIO, K for KvikIO's own code. other_reader URL
#include "other_kvikio.hpp"

#include <cstdio>
#include <raskio_kvikio.h>

namespace {

/// A user's own.
struct Special : kvikio::HttpEndpoint {
  using kvikio::HttpEndpoint::HttpEndpoint;
};

template <typename Endpoint>
char who(const std::string& url) {
  auto endpoint = std::make_unique<Endpoint>(url);
  const bool is_other_size = endpoint->get_file_size() == 555;
  kvikio::RemoteHandle handle(std::move(endpoint), 1000);
  unsigned char data[1000] = {};
  auto* pool = reinterpret_cast<BS::thread_pool*>(&handle);  // that it is not null is all that is looked at
  if (handle.pread(data, 1000, 0, 4 << 20, pool).get() != 1000) return '?';
  const bool other = data[1] == 0x55, ours = data[0] == 7 && data[1] == 38 && data[999] == (999 * 31 + 7) % 251;
  if (handle.read(data, 10, 5) != 10 || (data[1] == 0x55) != other || other != is_other_size) return '?';
  return other ? 'K' : ours ? 'R' : '?';
}

}  // namespace

int main(int, char** argv) {
  const char own = who<kvikio::HttpEndpoint>(argv[1]), special = who<Special>(argv[1]);
  raskio_kvikio_info info{};
  info.struct_size = sizeof info;
  raskio_kvikio_status(&info);
  std::printf("%c%c enabled %u, %s; %s\n", own, special, info.enabled, info.reason != nullptr ? info.reason : "-",
              info.left_reason != nullptr ? info.left_reason : "-");
}
