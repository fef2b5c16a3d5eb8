// RaskIO's errors, thrown as KvikIO throws its own.
#pragma once

#include "state.hpp"

#include <exception>

namespace shim {

/// What RaskIO said of an operation or a call.
struct Failure {
  raskio_status status = RASKIO_OK;
  int http_status = 0;
  std::string message;

  static Failure of(const raskio_error* error, raskio_status status);
};

/// Of a read.
std::exception_ptr read_error(const Failure& failure, const Session& session);

/// Of a question for the size of the object at `url`.
std::exception_ptr size_error(const Failure& failure, const Session& session, Kind kind, std::string_view url);

/// A range that ends behind the object.
std::exception_ptr out_of_bounds(std::size_t offset, std::size_t size, std::size_t nbytes, std::string_view url);

/// A text as KvikIO begins its own.
std::string failure_text(const std::string& text);

/// What RaskIO tells of requests on their way, for KvikIO's log and counters. `user_data` is the Kvikio.
void on_event(void* user_data, const raskio_event* event);

}  // namespace shim
