// What an endpoint of KvikIO stands for: where it is, and who asks.
#pragma once

#include "kvikio.hpp"
#include "raskio.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace shim {

/// Views into an endpoint, which must outlive them.
struct Source {
  Kind kind = Kind::unknown;
  std::string_view url;
  /// S3.
  std::string_view region, key_id, secret, token;
  /// WebHDFS.
  std::optional<std::string_view> user;

  /// Two sources are the same object for the same user if these are equal.
  void key(std::string& into) const;
};

/// The source that an endpoint of this class stands for. `kind` is unknown, and `reason` says why, if it holds something
/// that this library does not know.
Source source_of(const void* endpoint, Kind kind, const char*& reason);

/// A source that RaskIO has opened. Shared by everybody who reads it; its texts are its own.
class Remote {
 public:
  /// Null, and `error` says why, if RaskIO cannot open it.
  static std::shared_ptr<Remote> open(const Source& source, raskio_client* client, RaskioError& error);
  Remote(const Remote&) = delete;
  Remote& operator=(const Remote&) = delete;

  const Source& source() const { return source_; }
  const std::string& key() const { return key_; }
  raskio_object* object() const { return object_.get(); }

 private:
  Remote(const Source& source, ObjectRef object);
  std::string key_;
  std::string url_, region_, key_id_, secret_, token_, user_;
  Source source_;
  ObjectRef object_;
};
using RemoteRef = std::shared_ptr<Remote>;

/// The URL of S3, with everything encoded that KvikIO encodes before it sends one, and whatever else cannot stand in a URL.
std::string encoded_s3_url(std::string_view url);

}  // namespace shim
