// A program that links KvikIO (26.10) and reads one object with it: reader URL SIZE. Exit status 0 if the bytes are right.
// KvikIO's own headers need CUDA's, so what is used of it is declared here.
#ifdef USES_STATUS
#  include <raskio_kvikio.h>
#endif

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <future>
#include <optional>
#include <string>
#include <vector>

namespace BS {
class thread_pool;
}
namespace kvikio {

enum class RemoteEndpointType : std::uint8_t { AUTO, S3, S3_PUBLIC, S3_PRESIGNED_URL, WEBHDFS, HTTP };

struct RemoteHandle {
  alignas(16) unsigned char place[256];  // larger than it need be, and never destroyed
  static RemoteHandle open(std::string const& url, RemoteEndpointType type,
                           std::optional<std::vector<RemoteEndpointType>> allow_list,
                           std::optional<std::size_t> nbytes);
  std::size_t nbytes() const noexcept;
  std::size_t read(void* buffer, std::size_t size, std::size_t offset);
  std::future<std::size_t> pread(void* buffer, std::size_t size, std::size_t offset, std::size_t task_size,
                                 BS::thread_pool* pool);
};

struct defaults {
  static BS::thread_pool& thread_pool();
  static std::size_t task_size();
};

}  // namespace kvikio

int main(int argc, char** argv) try {
  if (argc < 3) return 2;
  const std::size_t size = std::strtoul(argv[2], nullptr, 10);
  kvikio::RemoteHandle handle =
      kvikio::RemoteHandle::open(argv[1], kvikio::RemoteEndpointType::HTTP, std::nullopt, std::nullopt);
  std::vector<unsigned char> data(size);
  if (handle.nbytes() != size) return 3;
  auto future =
      handle.pread(data.data(), size, 0, kvikio::defaults::task_size(), &kvikio::defaults::thread_pool());
  if (future.get() != size) return 4;
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] != (i * 31 + 7) % 251) return 5;
  }
  if (handle.read(data.data(), 10, size - 10) != 10 || data[9] != ((size - 1) * 31 + 7) % 251) return 6;
#ifdef USES_STATUS
  raskio_kvikio_info info{};
  info.struct_size = sizeof info;
  if (raskio_kvikio_status(&info) != 0) return 7;
  std::printf("enabled %d, reads %llu\n", raskio_kvikio_enabled(), static_cast<unsigned long long>(info.reads));
#else
  auto* enabled = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "raskio_kvikio_enabled"));
  std::printf("enabled %d\n", enabled != nullptr ? enabled() : -1);
#endif
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "failed: %s\n", error.what());
  return 1;
}
