// RaskIO as this library uses it: opened from the folder that this library lies in, called through its table.
#pragma once

#include <raskio.h>

#include <memory>
#include <string>

namespace shim {

/// The opened library. Stays open for ever.
struct Raskio {
  const raskio_api* api = nullptr;
  std::string path;
  std::string version;
  /// Why there is none; empty if there is one.
  std::string fault;
};

/// Opened on first use. `api` is null and `fault` says why if it cannot be.
const Raskio& raskio();

/// The same, but only if it was opened before; else null.
const Raskio* known_raskio() noexcept;

/// An error object that frees itself.
class RaskioError {
 public:
  ~RaskioError() {
    if (error_ != nullptr) raskio().api->error_free(error_);
  }
  RaskioError() = default;
  RaskioError(const RaskioError&) = delete;
  RaskioError& operator=(const RaskioError&) = delete;
  raskio_error** out() { return &error_; }
  const raskio_error* get() const { return error_; }
  std::string message() const { return error_ != nullptr ? raskio().api->error_message(error_) : "no message"; }

 private:
  raskio_error* error_ = nullptr;
};

struct ReleaseObject {
  void operator()(raskio_object* object) const { raskio().api->object_release(object); }
};
struct ReleaseClient {
  void operator()(raskio_client* client) const { raskio().api->client_release(client); }
};
/// One reference each.
using ObjectRef = std::unique_ptr<raskio_object, ReleaseObject>;
using ClientRef = std::unique_ptr<raskio_client, ReleaseClient>;

}  // namespace shim
