// What this library shares with KvikIO at run time: names and places, as they are in 26.02 to 26.10 (cu12 and cu13).
// Facts of its binary interface, found by looking at it; they are checked in every process before they are relied on
// (self_check.cpp). No declaration here has a vtable or a type info, so that none of KvikIO's is emitted or needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <string>

#define RASKIO_SHIM_EXPORT __attribute__((visibility("default")))

namespace BS {
class thread_pool;
}

// The functions that stand before KvikIO's own. `this` is KvikIO's object; nothing of it is declared.
namespace kvikio {

class RASKIO_SHIM_EXPORT RemoteHandle {
 public:
  std::size_t read(void* buffer, std::size_t size, std::size_t offset);
  std::future<std::size_t> pread(void* buffer, std::size_t size, std::size_t offset, std::size_t task_size,
                                 BS::thread_pool* pool);
};
class RASKIO_SHIM_EXPORT HttpEndpoint {
 public:
  std::size_t get_file_size();
};
class RASKIO_SHIM_EXPORT S3Endpoint {
 public:
  std::size_t get_file_size();
};
class RASKIO_SHIM_EXPORT S3PublicEndpoint {
 public:
  std::size_t get_file_size();
};
class RASKIO_SHIM_EXPORT S3EndpointWithPresignedUrl {
 public:
  std::size_t get_file_size();
};
class RASKIO_SHIM_EXPORT WebHdfsEndpoint {
 public:
  std::size_t get_file_size();
};
RASKIO_SHIM_EXPORT bool is_host_memory(void const* pointer);

}  // namespace kvikio

namespace shim {

/// Kinds of endpoints, in the order of `class_names`.
enum class Kind : unsigned { http, s3, s3_public, presigned, webhdfs, unknown };
constexpr std::size_t kinds = 5;

namespace abi {

/// std::type_info::name() of the endpoint classes: these very classes, and none derived from them.
constexpr const char* class_names[kinds] = {"N6kvikio12HttpEndpointE", "N6kvikio10S3EndpointE",
                                            "N6kvikio16S3PublicEndpointE", "N6kvikio26S3EndpointWithPresignedUrlE",
                                            "N6kvikio15WebHdfsEndpointE"};

constexpr const char* vtables[kinds] = {"_ZTVN6kvikio12HttpEndpointE", "_ZTVN6kvikio10S3EndpointE",
                                        "_ZTVN6kvikio16S3PublicEndpointE", "_ZTVN6kvikio26S3EndpointWithPresignedUrlE",
                                        "_ZTVN6kvikio15WebHdfsEndpointE"};

constexpr const char* size_functions[kinds] = {
    "_ZN6kvikio12HttpEndpoint13get_file_sizeEv", "_ZN6kvikio10S3Endpoint13get_file_sizeEv",
    "_ZN6kvikio16S3PublicEndpoint13get_file_sizeEv", "_ZN6kvikio26S3EndpointWithPresignedUrl13get_file_sizeEv",
    "_ZN6kvikio15WebHdfsEndpoint13get_file_sizeEv"};

constexpr const char* pread = "_ZN6kvikio12RemoteHandle5preadEPvmmmPN2BS11thread_poolE";
constexpr const char* read = "_ZN6kvikio12RemoteHandle4readEPvmm";
constexpr const char* is_host_memory = "_ZN6kvikio14is_host_memoryEPKv";

// Places in a vtable, counted from where objects point to, and what stands before it.
constexpr std::ptrdiff_t vtable_type_info = -1;
constexpr std::size_t vtable_destroy = 0;
constexpr std::size_t vtable_delete = 1;
constexpr std::size_t vtable_get_file_size = 4;
/// From the symbol of a vtable to where objects point to, in words.
constexpr std::size_t vtable_begin = 2;

// RemoteHandle
constexpr std::size_t handle_endpoint = 0;
constexpr std::size_t handle_nbytes = 8;
// All endpoints
constexpr std::size_t endpoint_url = 16;
// S3Endpoint
constexpr std::size_t s3_sigv4 = 48;
constexpr std::size_t s3_userpwd = 80;
constexpr std::size_t s3_headers = 112;
// WebHdfsEndpoint: an optional string, whose flag stands behind it
constexpr std::size_t webhdfs_user = 48;
constexpr std::size_t webhdfs_has_user = 80;

/// libcurl's list of header lines.
struct Lines {
  const char* text;
  const Lines* next;
};

}  // namespace abi

/// The thing of type `T` that lies there.
template <typename T>
const T& at(const void* base, std::size_t offset) {
  return *reinterpret_cast<const T*>(static_cast<const char*>(base) + offset);
}

/// Where an object's virtual functions are.
inline const void* const* vtable_of(const void* object) { return at<const void* const*>(object, 0); }

}  // namespace shim
