// A small libkvikio.so with KvikIO's names, for what no release of it does: another layout, a missing constructor, one that
// throws, one that asks for the size. CHANGE says which; 0 is the layout of 26.02 to 26.10.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#define GOOD 0
#define SHIFTED 1
#define LACKING 2
#define THROWING 3
#define TURNED 4
#define ASKING 5

namespace BS {
class thread_pool;
}
namespace kvikio {

class CurlHandle;

class RemoteEndpoint {
 public:
  std::uint8_t type{};
#if CHANGE == SHIFTED
  void* something_new = nullptr;
#endif
  virtual ~RemoteEndpoint() = default;
  virtual void setopt(CurlHandle&) {}
  virtual std::string str() const { return {}; }
  virtual std::size_t get_file_size() = 0;
  virtual void setup_range_request(CurlHandle&, std::size_t, std::size_t) {}
};

#define PLAIN(name)                    \
  class name : public RemoteEndpoint { \
   public:                             \
    std::string url;                   \
    explicit name(std::string url);    \
    ~name() override;                  \
    std::size_t get_file_size() override; \
  };
PLAIN(HttpEndpoint)
PLAIN(S3PublicEndpoint)
PLAIN(S3EndpointWithPresignedUrl)

class S3Endpoint : public RemoteEndpoint {
 public:
  std::string url, sigv4, userpwd;
  struct Line {
    char* text;
    Line* next;
  }* lines = nullptr;
  S3Endpoint(std::string url, std::optional<std::string> region, std::optional<std::string> key,
             std::optional<std::string> secret, std::optional<std::string> token);
  ~S3Endpoint() override;
  std::size_t get_file_size() override;
};

class WebHdfsEndpoint : public RemoteEndpoint {
 public:
  std::string url;
  std::optional<std::string> user;
#if CHANGE == LACKING
  WebHdfsEndpoint(std::string url, std::optional<std::string> user, int more);
#else
  WebHdfsEndpoint(std::string url, std::optional<std::string> user);
#endif
  ~WebHdfsEndpoint() override;
  std::size_t get_file_size() override;
};

class RemoteHandle {
 public:
#if CHANGE == TURNED
  std::size_t nbytes;
  std::unique_ptr<RemoteEndpoint> endpoint;
#else
  std::unique_ptr<RemoteEndpoint> endpoint;
  std::size_t nbytes;
#endif
  RemoteHandle(std::unique_ptr<RemoteEndpoint> endpoint, std::size_t nbytes);
  std::size_t read(void* buffer, std::size_t size, std::size_t offset);
  std::future<std::size_t> pread(void* buffer, std::size_t size, std::size_t offset, std::size_t task_size,
                                 BS::thread_pool* pool);
};

class defaults {
 public:
  static std::size_t http_max_attempts();
  static long http_timeout();
  static std::vector<int> const& http_status_codes();
  static std::size_t task_size();
  static std::size_t bounce_buffer_size();
  static unsigned int num_threads();
};

bool is_host_memory(void const*);

}  // namespace kvikio
