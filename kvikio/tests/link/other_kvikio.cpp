#include "other_kvikio.hpp"

#include <cstring>
#include <stdexcept>

namespace kvikio {

#define PLAIN_BODY(name)                                    \
  name::name(std::string given) : url(std::move(given)) {}  \
  name::~name() = default;                                  \
  std::size_t name::get_file_size() { return 555; }
PLAIN_BODY(HttpEndpoint)
PLAIN_BODY(S3PublicEndpoint)
PLAIN_BODY(S3EndpointWithPresignedUrl)

S3Endpoint::S3Endpoint(std::string given, std::optional<std::string> region, std::optional<std::string> key,
                       std::optional<std::string> secret, std::optional<std::string> token)
    : url(std::move(given)), sigv4("aws:amz:" + *region + ":s3"), userpwd(*key + ":" + *secret) {
#if CHANGE == THROWING
  throw std::runtime_error("not like this");
#endif
  if (key->compare(0, 4, "ASIA") == 0) lines = new Line{strdup(("x-amz-security-token: " + *token).c_str()), nullptr};
}
S3Endpoint::~S3Endpoint() {
  if (lines != nullptr) free(lines->text);
  delete lines;
}
std::size_t S3Endpoint::get_file_size() { return 555; }

#if CHANGE == LACKING
WebHdfsEndpoint::WebHdfsEndpoint(std::string given, std::optional<std::string> name, int)
#else
WebHdfsEndpoint::WebHdfsEndpoint(std::string given, std::optional<std::string> name)
#endif
    : url(std::move(given)), user(std::move(name)) {
}
WebHdfsEndpoint::~WebHdfsEndpoint() = default;
std::size_t WebHdfsEndpoint::get_file_size() { return 555; }

RemoteHandle::RemoteHandle(std::unique_ptr<RemoteEndpoint> given, std::size_t size) {
#if CHANGE == ASKING
  size = given->get_file_size();
#endif
  endpoint = std::move(given);
  nbytes = size;
}
// What this one reads is all 0x55.
std::size_t RemoteHandle::read(void* buffer, std::size_t size, std::size_t) {
  std::memset(buffer, 0x55, size);
  return size;
}
std::future<std::size_t> RemoteHandle::pread(void* buffer, std::size_t size, std::size_t, std::size_t,
                                             BS::thread_pool*) {
  std::memset(buffer, 0x55, size);
  std::promise<std::size_t> done;
  done.set_value(size);
  return done.get_future();
}

std::size_t defaults::http_max_attempts() { return 3; }
long defaults::http_timeout() { return 60; }
std::vector<int> const& defaults::http_status_codes() {
  static const std::vector<int> codes{503};
  return codes;
}
std::size_t defaults::task_size() { return 4 << 20; }
std::size_t defaults::bounce_buffer_size() { return 16 << 20; }
unsigned int defaults::num_threads() { return 1; }
bool is_host_memory(void const*) { return true; }

}  // namespace kvikio
