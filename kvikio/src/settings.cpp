#include "settings.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <strings.h>

namespace shim {
namespace {

// KvikIO's numbers.
constexpr std::uint8_t kvikio_multi_poll = 1;
constexpr std::uint8_t kvikio_per_pread = 1;

/// A setting that is 0 where RaskIO asks the environment, and never larger than a number of 32 bits.
std::uint32_t number(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, RASKIO_UNLIMITED - 1));
}

/// The environment asks for KvikIO's thread pool by name.
bool environment_says_threadpool() {
  static const bool says = [] {
    const char* value = std::getenv("KVIKIO_REMOTE_IO_BACKEND");
    return value != nullptr && strcasecmp(value, "EASY_THREADPOOL") == 0;
  }();
  return says;
}

/// A value of RASKIO_KVIKIO that there is not, until it is told.
std::atomic<char*> wrong_mode{nullptr};

}  // namespace

Mode mode() noexcept {
  static const Mode mode = [] {
    const char* value = std::getenv("RASKIO_KVIKIO");
    if (value == nullptr || *value == '\0') return Mode::on;
    for (const char* word : {"off", "false", "no", "0"}) {
      if (strcasecmp(value, word) == 0) return Mode::off;
    }
    for (const char* word : {"on", "true", "yes", "1"}) {
      if (strcasecmp(value, word) == 0) return Mode::on;
    }
    if (strcasecmp(value, "exact") == 0) return Mode::exact;
    wrong_mode.store(strdup(value), std::memory_order_relaxed);
    return Mode::on;
  }();
  return mode;
}

void tell_of_mode() noexcept {
  static_cast<void>(mode());
  if (wrong_mode.load(std::memory_order_relaxed) == nullptr) return;
  if (char* value = wrong_mode.exchange(nullptr)) {
    std::fprintf(stderr, "raskio_kvikio: RASKIO_KVIKIO is \"%s\"; on, off and exact are possible. It is taken for on\n",
                 value);
    std::free(value);
  }
}

bool kvikio_has_multi_poll(const Kvikio& kvikio) {
  return kvikio.defaults.remote_io_backend != nullptr && kvikio.defaults.remote_io_backend() == kvikio_multi_poll;
}

Settings Settings::of(const Kvikio& kvikio) {
  const Defaults& defaults = kvikio.defaults;
  Settings now;
  const bool threadpool = !kvikio_has_multi_poll(kvikio) && (mode() == Mode::exact || environment_says_threadpool());
  now.backend = threadpool ? RASKIO_BACKEND_EASY_THREADPOOL : RASKIO_BACKEND_MULTI_POLL;
  if (threadpool) {
    now.threads = std::max(1u, number(defaults.num_threads()));
  } else {
    if (defaults.remote_io_num_reactors != nullptr) now.reactors = number(defaults.remote_io_num_reactors());
    if (defaults.remote_io_reactor_dispatch != nullptr) {
      now.dispatch = defaults.remote_io_reactor_dispatch() == kvikio_per_pread ? RASKIO_DISPATCH_PER_PREAD
                                                                               : RASKIO_DISPATCH_PER_CHUNK;
    }
    if (defaults.remote_io_max_concurrent_requests != nullptr) {
      const std::size_t most = defaults.remote_io_max_concurrent_requests();
      now.max_requests = most == 0 ? RASKIO_UNLIMITED : number(most);
    }
  }
  now.max_attempts = std::max(1u, number(defaults.http_max_attempts()));
  // More milliseconds than fit into 32 bits are 49 days.
  now.timeout_ms = number(static_cast<std::uint64_t>(std::max(1L, defaults.http_timeout())) * 1000);
  now.bounce_buffer = defaults.bounce_buffer_size();
  return now;
}

raskio_client_options options_of(const Settings& settings, std::vector<std::uint16_t>& statuses) {
  raskio_client_options options{};
  options.struct_size = sizeof options;
  options.backend = settings.backend;
  options.reactor_dispatch = settings.dispatch;
  options.num_reactors = settings.reactors;
  options.num_threads = settings.threads;
  options.max_concurrent_requests = settings.max_requests;
  options.max_attempts = settings.max_attempts;
  options.request_timeout_ms = settings.timeout_ms;
  // KvikIO has one limit, for an attempt as a whole: a server that is silent for less than that is waited for.
  options.stall_timeout_ms = settings.timeout_ms;
  options.bounce_buffer_size = settings.bounce_buffer;
  // Not null with a count of 0: no status is worth a retry.
  if (statuses.capacity() == 0) statuses.reserve(1);
  options.retry_status = statuses.data();
  options.retry_status_count = statuses.size();
  return options;
}

}  // namespace shim
