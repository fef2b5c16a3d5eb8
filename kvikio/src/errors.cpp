#include "errors.hpp"

#include <algorithm>
#include <iostream>
#include <stdexcept>

namespace shim {
namespace {

/// What libcurl says of a status that it takes for an error, and KvikIO passes on.
std::string transfer_text(const Failure& failure) {
  if (failure.http_status >= 400) {
    return "curl_easy_perform() error (The requested URL returned error: " + std::to_string(failure.http_status) + ") [" +
           failure.message + "]";
  }
  return "curl_easy_perform() error (" + failure.message + ")";
}

bool is_retried(const Session& session, int http_status) {
  return std::find(session.statuses.begin(), session.statuses.end(), http_status) != session.statuses.end();
}

/// What both reads and questions can meet with.
std::exception_ptr transfer_error(const Failure& failure, const Session& session) {
  const std::string exhausted = failure_text("KvikIO: HTTP request reached maximum number of attempts (" +
                                             std::to_string(session.settings.max_attempts) + "). Reason: ");
  if (failure.http_status != 0 && is_retried(session, failure.http_status)) {
    return std::make_exception_ptr(std::runtime_error(
        exhausted + "Got HTTP code " + std::to_string(failure.http_status) + ". [" + failure.message + "]"));
  }
  if (failure.status == RASKIO_ERR_TIMED_OUT && failure.http_status == 0) {
    return std::make_exception_ptr(
        std::runtime_error(exhausted + "Operation timed out. [" + failure.message + "]"));
  }
  return std::make_exception_ptr(std::runtime_error(failure_text(transfer_text(failure))));
}

}  // namespace

Failure Failure::of(const raskio_error* error, raskio_status status) {
  Failure failure;
  failure.status = status;
  if (error != nullptr) {
    failure.http_status = raskio().api->error_http_status(error);
    failure.message = raskio().api->error_message(error);
  } else {
    failure.message = raskio().api->status_name(status);
  }
  return failure;
}

std::string failure_text(const std::string& text) { return "KvikIO failure at: libraskio_kvikio.so: " + text; }

std::exception_ptr read_error(const Failure& failure, const Session& session) {
  if (failure.status == RASKIO_ERR_RANGE && failure.http_status == 200) {
    return std::make_exception_ptr(std::overflow_error(
        failure_text("maybe the server doesn't support file ranges? [" + failure.message + "]")));
  }
  // A short body, a wrong range, an object that changed: KvikIO does not look for them.
  if (failure.http_status < 400 &&
      (failure.status == RASKIO_ERR_RANGE || failure.status == RASKIO_ERR_OBJECT_CHANGED)) {
    return std::make_exception_ptr(std::runtime_error(failure_text("the reply is not what was asked for: " + failure.message)));
  }
  return transfer_error(failure, session);
}

std::exception_ptr size_error(const Failure& failure, const Session& session, Kind kind, std::string_view url) {
  if (failure.status == RASKIO_ERR_RANGE && failure.http_status < 400) {
    if (kind == Kind::presigned) {
      return std::make_exception_ptr(std::invalid_argument(
          failure_text("File size information missing on the server side. [" + failure.message + "]")));
    }
    return std::make_exception_ptr(
        std::runtime_error(failure_text("cannot get size of " + std::string(url) +
                                        ", content-length not provided by the server [" + failure.message + "]")));
  }
  return transfer_error(failure, session);
}

std::exception_ptr out_of_bounds(std::size_t offset, std::size_t size, std::size_t nbytes, std::string_view url) {
  return std::make_exception_ptr(std::invalid_argument(
      failure_text("cannot read " + std::to_string(offset) + "+" + std::to_string(size) + " bytes into a " +
                   std::to_string(nbytes) + " bytes file (" + std::string(url) + ")")));
}

namespace {

/// What KvikIO says of a retry, where this release of it says it.
void notice(const Kvikio& kvikio, const raskio_event& event) {
  // KvikIO names the wait that it plans: 500 ms, doubled up to 4 s. RaskIO adds up to a quarter, or waits as long as the
  // server asks.
  const std::uint32_t planned = std::min(500u << std::min(event.attempt - 1, 3u), 4000u);
  const std::uint32_t wait = event.wait_ms > planned + planned / 4 ? event.wait_ms : planned;
  std::string what;
  if (event.http_status >= 400) {
    what = "Got HTTP code " + std::to_string(event.http_status) + ".";
  } else if (event.status == RASKIO_ERR_TIMED_OUT) {
    what = "Timeout error.";
  } else if (event.status == RASKIO_ERR_CONNECTION) {
    what = "Connection error.";
  } else {
    what = std::string("Transfer error ") + raskio().api->status_name(event.status) + ".";
  }
  const std::string text = "KvikIO: " + what + " Retrying after " + std::to_string(wait) + "ms (attempt " +
                           std::to_string(event.attempt) + " of " + std::to_string(event.max_attempts) + ").";
  constexpr int warning = 3;  // rapids_logger::level_enum
  if (kvikio.hooks.log != nullptr && kvikio.hooks.default_logger != nullptr) {
    kvikio.hooks.log(kvikio.hooks.default_logger(), warning, text);
  } else {
    std::cout << text << std::endl;
  }
}

}  // namespace

void on_event(void* user_data, const raskio_event* event) {
  const auto& kvikio = *static_cast<const Kvikio*>(user_data);
  const Hooks& hooks = kvikio.hooks;
  try {
    if (event->kind == RASKIO_EVENT_RETRY) {
      if (hooks.count_retry != nullptr) hooks.count_retry(std::chrono::milliseconds(event->wait_ms));
      notice(kvikio, *event);
    } else if (event->kind == RASKIO_EVENT_CONNECTED && hooks.count_connection != nullptr) {
      hooks.count_connection(event->connections, Nanoseconds(event->name_lookup_ns), Nanoseconds(event->connect_ns),
                             Nanoseconds(event->tls_ns));
    }
  } catch (...) {
    // What cannot be said stays unsaid.
  }
}

}  // namespace shim
