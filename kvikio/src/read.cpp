#include "read.hpp"

#include "batch.hpp"

#include <dlfcn.h>

namespace shim {
void Reading::succeed() {
  counters().bytes.fetch_add(request.size, std::memory_order_relaxed);
  observation.finish(request.size);
  promise.set_value(request.size);
}

void Reading::fail(const Failure& failure) {
  counters().failures.fetch_add(1, std::memory_order_relaxed);
  observation.fail();
  promise.set_exception(read_error(failure, *session));
}

namespace {

void done(void* user_data, const raskio_result* result) {
  conclude(std::unique_ptr<Reading>(static_cast<Reading*>(user_data)), result->status, result->error);
}

/// What was known of the object belongs, or may belong, to one that was replaced since: this read is of the new one. An
/// object that changes again meanwhile is an error.
bool start_again(Reading& reading) {
  Session& session = *reading.session;
  session.remotes.drop(*reading.remote);
  if (reading.again) return false;
  reading.again = true;
  // Opened for this read alone if nobody else did it first: its own source outlives it.
  std::string reason;
  const RemoteRef old = reading.remote;
  reading.remote = remote_of(session, old->source(), reason);
  RaskioError error;
  if (reading.remote != nullptr && submit(reading, error) == RASKIO_OK) return true;
  reading.remote = old;
  return false;
}

/// What RaskIO refuses without asking anybody is a range beyond the size that it knows, which was within the size that the
/// handle knows: the object may have grown.
bool may_be_replaced(raskio_status status) {
  return status == RASKIO_ERR_OBJECT_CHANGED || status == RASKIO_ERR_INVALID_ARGUMENT;
}

}  // namespace

raskio_status start(Reading& reading, RaskioError& error) {
  const raskio_status status = submit(reading, error);
  return may_be_replaced(status) && start_again(reading) ? RASKIO_OK : status;
}

raskio_status submit(Reading& reading, RaskioError& error) {
  raskio_read_options options{};
  options.struct_size = sizeof options;
  options.task_size = reading.request.task_size;
  const Request& request = reading.request;
  return raskio().api->read(reading.remote->object(), request.offset, request.buffer, request.size, &options, done,
                            &reading, nullptr, error.out());
}

void conclude(std::unique_ptr<Reading> reading, raskio_status status, const raskio_error* error) noexcept {
  try {
    if (status == RASKIO_OK) return reading->succeed();
    const Failure failure = Failure::of(error, status);
    if (may_be_replaced(status) && start_again(*reading)) {
      static_cast<void>(reading.release());
      return;
    }
    reading->fail(failure);
  } catch (...) {
    // Memory is over: whoever waits gets a broken promise.
  }
}

RemoteRef remote_of(Session& session, const Source& source, std::string& reason) {
  thread_local std::string key;
  source.key(key);
  if (RemoteRef kept = session.remotes.find(key)) return kept;
  RaskioError error;
  RemoteRef remote = Remote::open(source, session.client.get(), error);
  if (remote == nullptr) {
    reason = error.message();
    return nullptr;
  }
  session.remotes.keep(remote);
  return remote;
}

bool start_read(const Kvikio& kvikio, const Source& source, const Request& request, std::future<std::size_t>& future,
                std::string& reason) {
  auto reading = std::make_unique<Reading>();
  reading->session = session(kvikio, reason);
  if (reading->session == nullptr) return false;
  reading->remote = remote_of(*reading->session, source, reason);
  if (reading->remote == nullptr) return false;
  reading->request = request;
  if (const Hooks& hooks = kvikio.hooks; hooks.has_recorder() && hooks.monitoring_enabled()) {
    reading->observation.begin(hooks, source.kind, is_device_memory(kvikio, request.buffer), request.offset,
                               request.size, reading->remote->source().url);
  }
  future = reading->promise.get_future();
  counters().reads.fetch_add(1, std::memory_order_relaxed);
  if (collect(reading)) return true;
  RaskioError error;
  const raskio_status status = start(*reading, error);
  if (status == RASKIO_OK) {
    static_cast<void>(reading.release());
    return true;
  }
  counters().failures.fetch_add(1, std::memory_order_relaxed);
  std::rethrow_exception(read_error(Failure::of(error.get(), status), *reading->session));
}

bool ask_size(const Kvikio& kvikio, const Source& source, std::size_t& size, std::string& reason) {
  const SessionRef current = session(kvikio, reason);
  if (current == nullptr) return false;
  // A handle is being made: what an older one has learned of this object may be over.
  RaskioError error;
  const RemoteRef remote = Remote::open(source, current->client.get(), error);
  if (remote == nullptr) {
    reason = error.message();
    return false;
  }
  counters().size_probes.fetch_add(1, std::memory_order_relaxed);
  const SizeProbe probe(kvikio.hooks);
  std::uint64_t bytes = 0;
  RaskioError failed;
  const raskio_status status = raskio().api->object_stat_sync(remote->object(), &bytes, failed.out());
  if (status != RASKIO_OK) {
    std::rethrow_exception(size_error(Failure::of(failed.get(), status), *current, source.kind, source.url));
  }
  current->remotes.keep(remote);
  size = bytes;
  return true;
}

bool is_device_memory(const Kvikio& kvikio, const void* pointer) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  try {
    return driver != nullptr && kvikio.originals.is_host_memory != nullptr &&
           !kvikio.originals.is_host_memory(pointer);
  } catch (...) {
    return false;
  }
}

}  // namespace shim
