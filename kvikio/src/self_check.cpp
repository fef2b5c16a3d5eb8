// Whether things lie in KvikIO's objects where this library looks for them. Known values go through its own constructors
// into memory of ours, and are looked for there. All of them are short: a string then lies inside its object, which can
// be seen without following any pointer, so that not even an unknown release makes this crash.
#include "kvikio.hpp"

#include <cstring>
#include <optional>
#include <typeinfo>

namespace shim {
namespace {

constexpr std::size_t room = 1024;  // the largest of these objects has 120 bytes

const std::string url = "http://h/p";

/// Zeroed memory for one object.
struct Scratch {
  alignas(std::max_align_t) unsigned char bytes[room] = {};
};

/// A short string lies there.
bool holds(const void* base, std::size_t offset, const std::string& text) {
  const char* place = static_cast<const char*>(base) + offset;
  const char* data = at<const char*>(base, offset);
  return data == place + 16 && at<std::size_t>(base, offset + 8) == text.size() &&
         std::memcmp(data, text.c_str(), text.size() + 1) == 0;
}

bool is_class(const void* object, std::size_t kind) {
  const auto* type = static_cast<const std::type_info*>(vtable_of(object)[abi::vtable_type_info]);
  return type != nullptr && std::strcmp(type->name(), abi::class_names[kind]) == 0;
}

void destroy(void* object) {
  reinterpret_cast<void (*)(void*)>(const_cast<void*>(vtable_of(object)[abi::vtable_destroy]))(object);
}

template <typename... Arguments>
bool construct(const Kvikio& kvikio, const char* constructor, Scratch& into, Arguments... arguments) {
  void (*function)(void*, Arguments...) = nullptr;
  kvikio.find(function, constructor);
  if (function == nullptr) return false;
  function(into.bytes, arguments...);
  return vtable_of(into.bytes) != nullptr;
}

using Text = std::optional<std::string>;

#define RASKIO_STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

/// The three classes that are a URL and nothing else.
bool check_plain(const Kvikio& kvikio) {
  constexpr struct {
    Kind kind;
    const char* constructor;
  } rows[] = {{Kind::http, "_ZN6kvikio12HttpEndpointC1E" RASKIO_STRING},
              {Kind::s3_public, "_ZN6kvikio16S3PublicEndpointC1E" RASKIO_STRING},
              {Kind::presigned, "_ZN6kvikio26S3EndpointWithPresignedUrlC1E" RASKIO_STRING}};
  for (const auto& row : rows) {
    Scratch made;
    if (!construct(kvikio, row.constructor, made, url)) return false;
    const bool good =
        is_class(made.bytes, static_cast<std::size_t>(row.kind)) && holds(made.bytes, abi::endpoint_url, url);
    if (!good) return false;
    destroy(made.bytes);
  }
  return true;
}

bool check_s3(const Kvikio& kvikio) {
  constexpr const char* constructor =
      "_ZN6kvikio10S3EndpointC1E" RASKIO_STRING "St8optionalIS6_ES8_S8_S8_";
  const auto made_with = [&](Scratch& made, const char* key, Text token) {
    return construct<std::string, Text, Text, Text, Text>(kvikio, constructor, made, url, "r", key, "s", token) &&
           is_class(made.bytes, static_cast<std::size_t>(Kind::s3)) && holds(made.bytes, abi::endpoint_url, url) &&
           holds(made.bytes, abi::s3_sigv4, "aws:amz:r:s3") &&
           holds(made.bytes, abi::s3_userpwd, std::string(key) + ":s");
  };
  Scratch without, with;
  if (!made_with(without, "k", std::nullopt)) return false;
  if (at<const void*>(without.bytes, abi::s3_headers) != nullptr) return false;
  destroy(without.bytes);
  // Keys of this form need a token, which becomes a header.
  if (!made_with(with, "ASIA", "t")) return false;
  const auto* line = at<const abi::Lines*>(with.bytes, abi::s3_headers);
  const bool good = line != nullptr && line->text != nullptr && line->next == nullptr &&
                    std::strcmp(line->text, "x-amz-security-token: t") == 0;
  if (good) destroy(with.bytes);
  return good;
}

bool check_webhdfs(const Kvikio& kvikio) {
  constexpr const char* constructor = "_ZN6kvikio15WebHdfsEndpointC1E" RASKIO_STRING "St8optionalIS6_E";
  Scratch made;
  if (!construct<std::string, Text>(kvikio, constructor, made, url, Text("u"))) return false;
  const bool good = is_class(made.bytes, static_cast<std::size_t>(Kind::webhdfs)) &&
                    holds(made.bytes, abi::endpoint_url, url) && holds(made.bytes, abi::webhdfs_user, "u") &&
                    at<unsigned char>(made.bytes, abi::webhdfs_has_user) == 1;
  if (good) destroy(made.bytes);
  return good;
}

bool check_handle(const Kvikio& kvikio) {
  // A std::unique_ptr<RemoteEndpoint> is passed by reference to a temporary, as everything with a destructor is.
  void (*function)(void*, void**, std::size_t) = nullptr;
  kvikio.find(function, "_ZN6kvikio12RemoteHandleC1ESt10unique_ptrINS_14RemoteEndpointESt14default_deleteIS2_EEm");
  Scratch endpoint, handle;
  if (function == nullptr) return false;
  if (!construct(kvikio, "_ZN6kvikio12HttpEndpointC1E" RASKIO_STRING, endpoint, url)) return false;
  void* owner = endpoint.bytes;
  function(handle.bytes, &owner, 4711);
  // The handle is never destroyed, so nobody frees its endpoint; what else it holds is short, and lies inside it.
  const bool good = owner == nullptr && at<void*>(handle.bytes, abi::handle_endpoint) == endpoint.bytes &&
                    at<std::size_t>(handle.bytes, abi::handle_nbytes) == 4711;
  if (good) destroy(endpoint.bytes);
  return good;
}

}  // namespace

std::string self_check(const Kvikio& kvikio) {
  try {
    for (std::size_t i = 0; i < kinds; ++i) {
      if (kvikio.originals.size[i] == nullptr) return std::string("it lacks ") + abi::size_functions[i];
    }
    if (kvikio.originals.pread == nullptr || kvikio.originals.read == nullptr) return "it lacks RemoteHandle::pread";
    const Defaults& defaults = kvikio.defaults;
    if (defaults.http_max_attempts == nullptr || defaults.http_timeout == nullptr ||
        defaults.http_status_codes == nullptr || defaults.task_size == nullptr ||
        defaults.bounce_buffer_size == nullptr || defaults.num_threads == nullptr) {
      return "it lacks some of its settings";
    }
    if (!check_plain(kvikio)) return "its endpoints are laid out in an unknown way";
    if (!check_s3(kvikio)) return "its S3Endpoint is laid out in an unknown way";
    if (!check_webhdfs(kvikio)) return "its WebHdfsEndpoint is laid out in an unknown way";
    if (!check_handle(kvikio)) return "its RemoteHandle is laid out in an unknown way";
    return {};
  } catch (const std::exception& error) {
    return std::string("its constructors refuse what they should take: ") + error.what();
  } catch (...) {
    return "its constructors refuse what they should take";
  }
}

}  // namespace shim
