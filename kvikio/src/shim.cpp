// The functions that stand before KvikIO's own. Each decides whose the call is, and leaves the rest to others.
#include "read.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <stdexcept>

namespace {

using shim::Kind;
using shim::Kvikio;

/// Whose a call is. `kvikio` is set in any case: whatever this library cannot do, KvikIO does as it always did.
struct Decision {
  const Kvikio* kvikio = nullptr;
  bool ours = false;
  shim::Source source;

  /// Not ours, for this reason.
  void leave(const char* reason) { shim::leave(reason); }
  void leave(const std::string& reason) { shim::leave(reason); }
};

const Kvikio& must_find() {
  if (shim::is_checking()) throw std::runtime_error("a constructor of KvikIO's does more than it should");
  shim::tell_of_mode();
  const Kvikio* kvikio = shim::primary_kvikio();
  if (kvikio == nullptr || kvikio->originals.pread == nullptr) {
    throw std::runtime_error(
        shim::failure_text("KvikIO's own code is not to be found: it is not loaded as libkvikio.so"));
  }
  return *kvikio;
}

/// Of an endpoint that is known to be one.
void decide(Decision& decision, const void* endpoint) {
  const shim::Class found = shim::class_of(endpoint);
  if (found.kvikio == nullptr) return decision.leave("the library of an endpoint is not to be found");
  decision.kvikio = found.kvikio;
  if (found.kind == Kind::unknown) return decision.leave("an endpoint is of a class that is not KvikIO's own");
  if (!found.kvikio->fault.empty()) {
    return decision.leave("this KvikIO is not known (" + found.kvikio->path + "): " + found.kvikio->fault);
  }
  if (shim::raskio().api == nullptr) return decision.leave(shim::raskio().fault);
  const char* reason = nullptr;
  decision.source = shim::source_of(endpoint, found.kind, reason);
  if (reason != nullptr) return decision.leave(reason);
  decision.ours = true;
}

/// Of a handle. `nbytes` is set if the call is ours.
Decision decide_handle(const void* handle, std::size_t& nbytes) {
  Decision decision;
  decision.kvikio = &must_find();
  if (shim::mode() == shim::Mode::off) {
    decision.leave("RASKIO_KVIKIO=off");
    return decision;
  }
  // Before anything of the handle is looked at.
  if (!decision.kvikio->fault.empty()) {
    decision.leave("this KvikIO is not known (" + decision.kvikio->path + "): " + decision.kvikio->fault);
    return decision;
  }
  const void* endpoint = shim::at<const void*>(handle, shim::abi::handle_endpoint);
  if (endpoint == nullptr) throw std::invalid_argument(shim::failure_text("this RemoteHandle was moved from"));
  decide(decision, endpoint);
  nbytes = shim::at<std::size_t>(handle, shim::abi::handle_nbytes);
  return decision;
}

std::size_t size_of(void* endpoint, Kind kind) {
  Decision decision;
  decision.kvikio = &must_find();
  if (shim::mode() == shim::Mode::off) {
    decision.leave("RASKIO_KVIKIO=off");
  } else {
    decide(decision, endpoint);
  }
  if (decision.ours) {
    std::size_t size = 0;
    std::string reason;
    if (shim::ask_size(*decision.kvikio, decision.source, size, reason)) return size;
    decision.leave(reason);
  }
  const auto original = decision.kvikio->originals.size[static_cast<std::size_t>(kind)];
  if (original == nullptr) throw std::runtime_error(shim::failure_text("KvikIO's own get_file_size is not to be found"));
  return original(endpoint);
}

bool is_beyond(std::size_t offset, std::size_t size, std::size_t nbytes) {
  return offset > nbytes || size > nbytes - offset;
}

}  // namespace

namespace kvikio {

std::future<std::size_t> RemoteHandle::pread(void* buffer, std::size_t size, std::size_t offset, std::size_t task_size,
                                             BS::thread_pool* pool) {
  if (size == 0 && shim::mode() != shim::Mode::off) {
    std::promise<std::size_t> nothing;
    nothing.set_value(0);
    return nothing.get_future();
  }
  std::size_t nbytes = 0;
  Decision decision = decide_handle(this, nbytes);
  if (decision.ours) {
    const Kvikio& kvikio = *decision.kvikio;
    if (task_size == 0) throw std::invalid_argument(shim::failure_text("`task_size` must be positive"));
    const bool has_multi_poll = shim::kvikio_has_multi_poll(kvikio);
    if (!has_multi_poll && pool == nullptr) {
      throw std::runtime_error(shim::failure_text("The thread pool must not be nullptr"));
    }
    if (is_beyond(offset, size, nbytes)) {
      std::exception_ptr error = shim::out_of_bounds(offset, size, nbytes, decision.source.url);
      // KvikIO's reactors are not asked for it; its threads find out by themselves.
      if (has_multi_poll) std::rethrow_exception(error);
      std::promise<std::size_t> failed;
      failed.set_exception(std::move(error));
      return failed.get_future();
    }
    std::future<std::size_t> future;
    std::string reason;
    if (shim::start_read(kvikio, decision.source, {buffer, size, offset, task_size}, future, reason)) return future;
    decision.leave(reason);
  }
  return decision.kvikio->originals.pread(this, buffer, size, offset, task_size, pool);
}

std::size_t RemoteHandle::read(void* buffer, std::size_t size, std::size_t offset) {
  if (size == 0 && shim::mode() != shim::Mode::off) return 0;
  std::size_t nbytes = 0;
  Decision decision = decide_handle(this, nbytes);
  if (decision.ours) {
    if (is_beyond(offset, size, nbytes)) {
      std::rethrow_exception(shim::out_of_bounds(offset, size, nbytes, decision.source.url));
    }
    std::future<std::size_t> future;
    std::string reason;
    const std::size_t task_size = std::max<std::size_t>(1, decision.kvikio->defaults.task_size());
    if (shim::start_read(*decision.kvikio, decision.source, {buffer, size, offset, task_size}, future, reason)) {
      return future.get();
    }
    decision.leave(reason);
  }
  return decision.kvikio->originals.read(this, buffer, size, offset);
}

std::size_t HttpEndpoint::get_file_size() { return size_of(this, Kind::http); }
std::size_t S3Endpoint::get_file_size() { return size_of(this, Kind::s3); }
std::size_t S3PublicEndpoint::get_file_size() { return size_of(this, Kind::s3_public); }
std::size_t S3EndpointWithPresignedUrl::get_file_size() { return size_of(this, Kind::presigned); }
std::size_t WebHdfsEndpoint::get_file_size() { return size_of(this, Kind::webhdfs); }

// KvikIO asks the CUDA driver before it touches any memory, and fails where there is none: there all memory is the host's.
bool is_host_memory(void const* pointer) {
  static const bool has_driver = dlopen("libcuda.so.1", RTLD_LAZY) != nullptr;
  if (!has_driver && shim::mode() != shim::Mode::off) return true;
  return must_find().originals.is_host_memory(pointer);
}

}  // namespace kvikio
