// What a RaskIO client is made with: KvikIO's settings of this moment.
#pragma once

#include "kvikio.hpp"

#include <cstdint>
#include <raskio.h>
#include <vector>

namespace shim {

/// How RASKIO_KVIKIO says that this library works. Read once.
enum class Mode { on, off, exact };
Mode mode() noexcept;

/// Says once that RASKIO_KVIKIO has a value that there is not. Not when the library is loaded: LD_PRELOAD loads it into
/// programs that have nothing to do with KvikIO.
void tell_of_mode() noexcept;

/// Settings that a client has for its whole life. 0 leaves a value to RaskIO, which asks the environment.
struct Settings {
  std::uint32_t backend = 0;
  std::uint32_t dispatch = 0;
  std::uint32_t reactors = 0;
  std::uint32_t threads = 0;
  std::uint32_t max_requests = 0;
  std::uint32_t max_attempts = 0;
  std::uint32_t timeout_ms = 0;
  std::uint64_t bounce_buffer = 0;

  bool operator==(const Settings& other) const {
    return backend == other.backend && dispatch == other.dispatch && reactors == other.reactors &&
           threads == other.threads && max_requests == other.max_requests && max_attempts == other.max_attempts &&
           timeout_ms == other.timeout_ms && bounce_buffer == other.bounce_buffer;
  }

  /// KvikIO's, now.
  static Settings of(const Kvikio& kvikio);
};

/// KvikIO would use its reactors: its setting says so, which exists from 26.08 on.
bool kvikio_has_multi_poll(const Kvikio& kvikio);

/// The options of a client with these settings. Points into `statuses`.
raskio_client_options options_of(const Settings& settings, std::vector<std::uint16_t>& statuses);

}  // namespace shim
