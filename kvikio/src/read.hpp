// Reads and questions for sizes, done by RaskIO.
#pragma once

#include "errors.hpp"
#include "observation.hpp"

#include <future>
#include <memory>

namespace shim {

/// One read as KvikIO was asked for it.
struct Request {
  void* buffer;
  std::size_t size;
  std::size_t offset;
  std::size_t task_size;
};

/// A read between KvikIO's call and RaskIO's callback.
struct Reading {
  SessionRef session;
  RemoteRef remote;
  Request request{};
  /// What was open had been replaced, and was opened anew for this read.
  bool again = false;
  Observation observation;
  std::promise<std::size_t> promise;

  void succeed();
  void fail(const Failure& failure);
};

/// The end of a read, as RaskIO tells it. Frees it, or starts it again.
void conclude(std::unique_ptr<Reading> reading, raskio_status status, const raskio_error* error) noexcept;

/// Hands it to RaskIO, whose it is until the callback. Otherwise the status says why not.
raskio_status submit(Reading& reading, RaskioError& error);

/// The same, for an object that may have been replaced since it was opened.
raskio_status start(Reading& reading, RaskioError& error);

/// Starts it. False, and `reason` says why, if it is not for RaskIO; throws what KvikIO throws.
bool start_read(const Kvikio& kvikio, const Source& source, const Request& request, std::future<std::size_t>& future,
                std::string& reason);

/// Asks for the size. False, and `reason` says why, if it is not for RaskIO; throws what KvikIO throws.
bool ask_size(const Kvikio& kvikio, const Source& source, std::size_t& size, std::string& reason);

/// What is open of this source, or opened now. Null, and `reason` says why, if RaskIO cannot.
RemoteRef remote_of(Session& session, const Source& source, std::string& reason);

/// The memory is CUDA's own, as KvikIO sees it. For its monitors alone: RaskIO finds out for itself.
bool is_device_memory(const Kvikio& kvikio, const void* pointer);

}  // namespace shim
