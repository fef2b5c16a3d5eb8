#include "state.hpp"

#include "errors.hpp"

#include <algorithm>
#include <cstring>
#include <pthread.h>
#include <set>

namespace shim {

RemoteRef Remotes::find(const std::string& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  order_.splice(order_.begin(), order_, found->second);
  return *found->second;
}

void Remotes::keep(const RemoteRef& remote) {
  // Freed behind the lock's end.
  std::list<RemoteRef> gone;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto found = index_.find(remote->key()); found != index_.end()) {
    const auto place = found->second;
    index_.erase(found);
    gone.splice(gone.begin(), order_, place);
  }
  order_.push_front(remote);
  // The key is the remote's own text, which stays where it is.
  index_.emplace(remote->key(), order_.begin());
  if (order_.size() > most) {
    const auto last = std::prev(order_.end());
    index_.erase((*last)->key());
    gone.splice(gone.begin(), order_, last);
  }
}

void Remotes::drop(const Remote& remote) {
  std::list<RemoteRef> gone;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = index_.find(remote.key());
  if (found == index_.end() || found->second->get() != &remote) return;
  const auto place = found->second;
  index_.erase(found);
  gone.splice(gone.begin(), order_, place);
}

std::size_t Remotes::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return order_.size();
}

void Remotes::clear() {
  std::list<RemoteRef> gone;
  const std::lock_guard<std::mutex> lock(mutex_);
  index_.clear();
  gone.swap(order_);
}

namespace {

/// Programs have one set of settings, or change between a few.
constexpr std::size_t most_sessions = 4;

struct State {
  std::mutex mutex;
  /// Used last, first.
  std::vector<SessionRef> sessions;
};

/// Replaced in a forked child: whatever the parent's threads were doing with this one, its lock included, stays behind.
std::atomic<State*> state{new State};
std::atomic<const char*> reason_left{nullptr};

void start_anew() {
  state.store(new State, std::memory_order_release);
  forget_locks();
}

SessionRef make(const Kvikio& kvikio, const Settings& settings, const std::vector<int>& statuses, std::string& reason);

}  // namespace

SessionRef session(const Kvikio& kvikio, std::string& reason) {
  const Settings now = Settings::of(kvikio);
  const std::vector<int>& statuses = kvikio.defaults.http_status_codes();
  State& all = *state.load(std::memory_order_acquire);
  SessionRef gone;
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (auto it = all.sessions.begin(); it != all.sessions.end(); ++it) {
    if ((*it)->settings == now && (*it)->statuses == statuses && (*it)->kvikio == &kvikio) {
      if (it != all.sessions.begin()) std::rotate(all.sessions.begin(), it, it + 1);
      return all.sessions.front();
    }
  }
  static const int watching = pthread_atfork(nullptr, nullptr, start_anew);
  static_cast<void>(watching);
  SessionRef made = make(kvikio, now, statuses, reason);
  if (made == nullptr) return nullptr;
  all.sessions.insert(all.sessions.begin(), made);
  if (all.sessions.size() > most_sessions) {
    gone = std::move(all.sessions.back());
    all.sessions.pop_back();
  }
  return made;
}

namespace {

SessionRef make(const Kvikio& kvikio, const Settings& settings, const std::vector<int>& statuses, std::string& reason) {
  std::vector<std::uint16_t> codes;
  for (const int status : statuses) {
    // What is no HTTP status never comes.
    if (status >= 100 && status <= 599) codes.push_back(static_cast<std::uint16_t>(status));
  }
  auto made = std::make_shared<Session>();
  made->settings = settings;
  made->statuses = statuses;
  made->kvikio = &kvikio;
  raskio_client_options options = options_of(settings, codes);
  options.on_event = on_event;
  // The library stays loaded, and so does this.
  options.user_data = const_cast<Kvikio*>(&kvikio);
  raskio_client* client = nullptr;
  RaskioError error;
  if (raskio().api->client_new(&options, &client, error.out()) != RASKIO_OK) {
    reason = "RaskIO cannot start: " + error.message();
    return nullptr;
  }
  made->client.reset(client);
  return made;
}

}  // namespace

Counters& counters() noexcept {
  static Counters counters;
  return counters;
}

void leave(const char* reason) noexcept {
  counters().left.fetch_add(1, std::memory_order_relaxed);
  reason_left.store(reason, std::memory_order_release);
}

void leave(const std::string& reason) noexcept {
  try {
    // Few different ones, and whoever asked for the last one may still look at it.
    static auto* mutex = new std::mutex;
    static auto* texts = new std::set<std::string>;
    const std::lock_guard<std::mutex> lock(*mutex);
    if (texts->size() > 1000) return leave("too many reasons to keep");
    leave(texts->insert(reason).first->c_str());
  } catch (...) {
    leave("out of memory");
  }
}

const char* last_reason() noexcept { return reason_left.load(std::memory_order_acquire); }

std::size_t open_objects() {
  State& all = *state.load(std::memory_order_acquire);
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::size_t open = 0;
  for (const SessionRef& session : all.sessions) open += session->remotes.size();
  return open;
}

void stop(std::uint32_t timeout_ms) {
  State& all = *state.load(std::memory_order_acquire);
  std::vector<SessionRef> gone;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    gone.swap(all.sessions);
  }
  for (const SessionRef& session : gone) {
    raskio().api->client_shut_down(session->client.get(), timeout_ms, nullptr);
    session->remotes.clear();
  }
}

}  // namespace shim
