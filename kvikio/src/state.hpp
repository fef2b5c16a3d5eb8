// What this process has open: RaskIO clients by settings, objects by what they are, and counters.
#pragma once

#include "settings.hpp"
#include "source.hpp"

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace shim {

/// What is open, by source: at most so many, the one that was used longest ago goes first. KvikIO tells nobody when a
/// handle ends, so nothing is kept by the address of one.
class Remotes {
 public:
  static constexpr std::size_t most = 1024;

  /// What is kept under this key, or null.
  RemoteRef find(const std::string& key);
  /// Keeps it, instead of what was kept under its key.
  void keep(const RemoteRef& remote);
  /// Forgets it, if it is still the one that is kept under its key.
  void drop(const Remote& remote);
  std::size_t size() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  /// Used last, first.
  std::list<RemoteRef> order_;
  std::unordered_map<std::string_view, std::list<RemoteRef>::iterator> index_;
};

/// A RaskIO client with its settings and what it has open.
struct Session {
  Settings settings;
  std::vector<int> statuses;
  const Kvikio* kvikio = nullptr;
  ClientRef client;
  Remotes remotes;
};
using SessionRef = std::shared_ptr<Session>;

/// The session for KvikIO's settings of this moment; made if there is none. Null if RaskIO refuses them: `reason`.
SessionRef session(const Kvikio& kvikio, std::string& reason);

struct Counters {
  std::atomic<std::uint64_t> reads{0}, bytes{0}, failures{0}, size_probes{0}, left{0}, batch_items{0};
};
Counters& counters() noexcept;

/// Counts something that is left to KvikIO's own code, and why. `reason` stays for ever, or is copied so that it does.
void leave(const char* reason) noexcept;
void leave(const std::string& reason) noexcept;
const char* last_reason() noexcept;

/// Objects that are open in all sessions.
std::size_t open_objects();

/// Ends everything that runs and forgets every session.
void stop(std::uint32_t timeout_ms);

}  // namespace shim
