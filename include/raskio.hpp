// RaskIO for C++17: handles that release themselves, futures, exceptions. Header only, over raskio.h, whose contract
// holds here too; nothing is added to what that one promises, and no library.
// SPDX-License-Identifier: Apache-2.0
//
//   raskio::client client;                                  // settings from the environment and the defaults
//   raskio::object object = client.open("http://host/path");
//   std::vector<char> bytes(object.stat().get());
//   std::size_t read = object.read(0, bytes.data(), bytes.size()).get();
//   std::vector<raskio::read_spec> specs{{object, 0, bytes.data(), 100}, {object, 4096, bytes.data() + 100, 100}};
//   client.read_batch(specs).get().check();
//
// Calls that fail throw raskio::error or a class derived from it. Copies of a handle refer to the same thing.
#ifndef RASKIO_HPP
#define RASKIO_HPP

#include "raskio.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace raskio {

/// What went wrong. status() is the cause to branch on, what() the message.
class error : public std::runtime_error {
 public:
  error(raskio_status status, const std::string& message, int http_status = 0, int os_code = 0)
      : std::runtime_error(message), status_(status), http_status_(http_status), os_code_(os_code) {}

  /// RASKIO_ERR_*.
  raskio_status status() const noexcept { return status_; }
  /// The HTTP status that caused it, 0 if none did.
  int http_status() const noexcept { return http_status_; }
  /// The errno that caused it, 0 if none did.
  int os_code() const noexcept { return os_code_; }

 private:
  raskio_status status_;
  int http_status_;
  int os_code_;
};

/// RASKIO_ERR_NOT_FOUND.
class not_found : public error {
  using error::error;
};
/// RASKIO_ERR_CANCELLED.
class cancelled : public error {
  using error::error;
};
/// RASKIO_ERR_TIMED_OUT.
class timed_out : public error {
  using error::error;
};

namespace detail {

template <class Exception>
std::exception_ptr make(raskio_status status, const raskio_error* cause) {
  std::string message = cause != nullptr ? raskio_error_message(cause) : raskio_status_name(status);
  return std::make_exception_ptr(
      Exception(status, message, raskio_error_http_status(cause), raskio_error_os_code(cause)));
}

/// The exception for a failure. `cause` may be null and stays the caller's.
inline std::exception_ptr exception_for(raskio_status status, const raskio_error* cause) {
  switch (status) {
    case RASKIO_ERR_NOT_FOUND: return make<not_found>(status, cause);
    case RASKIO_ERR_CANCELLED: return make<cancelled>(status, cause);
    case RASKIO_ERR_TIMED_OUT: return make<timed_out>(status, cause);
    default: return make<error>(status, cause);
  }
}

/// An error output: freed when it goes, thrown by check().
class error_output {
 public:
  error_output() = default;
  error_output(const error_output&) = delete;
  error_output& operator=(const error_output&) = delete;
  ~error_output() { raskio_error_free(cause_); }

  raskio_error** out() noexcept { return &cause_; }

  void check(raskio_status status) const {
    if (status != RASKIO_OK) std::rethrow_exception(exception_for(status, cause_));
  }

 private:
  raskio_error* cause_ = nullptr;
};

/// A reference to a T of the C API, null after it was moved from.
template <class T, T* (*Acquire)(T*), void (*Release)(T*)>
class handle {
 public:
  handle() noexcept = default;
  /// Takes over a reference.
  explicit handle(T* owned) noexcept : c_(owned) {}
  handle(const handle& other) noexcept : c_(Acquire(other.c_)) {}
  handle(handle&& other) noexcept : c_(std::exchange(other.c_, nullptr)) {}
  handle& operator=(handle other) noexcept {
    std::swap(c_, other.c_);
    return *this;
  }
  ~handle() { Release(c_); }

  /// For calls of the C API; the reference stays here.
  T* get() const noexcept { return c_; }
  explicit operator bool() const noexcept { return c_ != nullptr; }

 private:
  T* c_ = nullptr;
};

/// Milliseconds as the C API counts them; what is too large is as good as for ever, what is negative is over.
inline std::uint32_t milliseconds(std::chrono::milliseconds time) noexcept {
  if (time.count() < 0) return 0;
  if (time.count() >= static_cast<std::int64_t>(RASKIO_UNLIMITED)) return RASKIO_UNLIMITED - 1;
  return static_cast<std::uint32_t>(time.count());
}

/// C would take a string for over at its first NUL.
inline const char* c_string(const std::string& text, const char* name) {
  if (text.find('\0') != std::string::npos) {
    throw error(RASKIO_ERR_INVALID_ARGUMENT, std::string(name) + " has a NUL inside");
  }
  return text.c_str();
}

}  // namespace detail

/// raskio_client_options with struct_size set and the rest zero: set what you want.
struct client_options : raskio_client_options {
  client_options() noexcept : raskio_client_options{} { struct_size = sizeof(raskio_client_options); }
};

/// raskio_object_options with struct_size set and the rest zero. What its pointers point to is read by open().
struct object_options : raskio_object_options {
  object_options() noexcept : raskio_object_options{} { struct_size = sizeof(raskio_object_options); }
};

/// raskio_read_options with struct_size set and the rest zero.
struct read_options : raskio_read_options {
  read_options() noexcept : raskio_read_options{} { struct_size = sizeof(raskio_read_options); }
};

/// raskio_batch_options with struct_size set and the rest zero. What `read` points to is copied by the call.
struct batch_options : raskio_batch_options {
  batch_options() noexcept : raskio_batch_options{} { struct_size = sizeof(raskio_batch_options); }
};

/// How one item of a batch ended, to keep.
struct item_result {
  raskio_status status = RASKIO_OK;
  /// Requests sent for it, retries included.
  std::uint32_t attempts = 0;
  /// Bytes now in its buffer.
  std::uint64_t bytes = 0;
  /// Offset of the first byte in the object.
  std::uint64_t offset = 0;
  /// The failure, null if there was none. Items that failed for one reason share it.
  std::exception_ptr exception;

  bool ok() const noexcept { return status == RASKIO_OK; }
  /// Throws the failure, if there was one.
  void check() const {
    if (exception) std::rethrow_exception(exception);
  }
};

/// How a batch ended, to keep.
struct batch_result {
  /// In the order of the specs.
  std::vector<item_result> items;
  /// Bytes in all buffers together.
  std::uint64_t bytes = 0;
  /// Requests sent, retries included.
  std::uint32_t attempts = 0;
  /// The first failure, null if there was none.
  std::exception_ptr exception;

  bool ok() const noexcept { return !exception; }
  /// Throws the first failure, if there was one.
  void check() const {
    if (exception) std::rethrow_exception(exception);
  }
};

/// How an operation ended, as its callback sees it. Valid in the callback only.
class result {
 public:
  explicit result(const raskio_result& c) noexcept : c_(&c) {}

  bool ok() const noexcept { return c_->status == RASKIO_OK; }
  raskio_status status() const noexcept { return c_->status; }
  /// Bytes now in the buffer.
  std::uint64_t bytes() const noexcept { return c_->bytes; }
  /// Requests sent, retries included.
  std::uint32_t attempts() const noexcept { return c_->attempts; }
  /// Offset of the first byte in the object.
  std::uint64_t offset() const noexcept { return c_->offset; }
  /// Items of a batch; 0 for anything else.
  std::size_t item_count() const noexcept { return c_->item_count; }
  /// One of them, in the order of the specs.
  const raskio_item_result& item(std::size_t index) const noexcept {
    auto start = reinterpret_cast<const unsigned char*>(c_->items);
    return *reinterpret_cast<const raskio_item_result*>(start + index * c_->item_size);
  }
  /// The failure as an exception that may be kept; null if there was none.
  std::exception_ptr exception() const { return ok() ? nullptr : detail::exception_for(c_->status, c_->error); }
  /// Throws the failure, if there was one.
  void check() const {
    if (!ok()) std::rethrow_exception(exception());
  }
  const raskio_result& c() const noexcept { return *c_; }

  /// Everything about a batch, to keep.
  batch_result batch() const {
    batch_result all;
    all.bytes = bytes();
    all.attempts = attempts();
    all.exception = exception();
    all.items.reserve(item_count());
    const raskio_error* last = nullptr;
    std::exception_ptr shared;
    for (std::size_t i = 0; i < item_count(); ++i) {
      const raskio_item_result& c = item(i);
      if (c.status != RASKIO_OK && (c.error == nullptr || c.error != last)) {
        shared = detail::exception_for(c.status, c.error);
        last = c.error;
      }
      all.items.push_back({c.status, c.attempts, c.bytes, c.offset, c.status == RASKIO_OK ? nullptr : shared});
    }
    return all;
  }

 private:
  const raskio_result* c_;
};

/// One operation in progress. Letting go of it neither cancels nor waits.
class op : public detail::handle<raskio_op, raskio_op_acquire, raskio_op_release> {
 public:
  using handle::handle;

  /// Asks it to end; the callback still comes.
  void cancel() const noexcept { raskio_op_cancel(get()); }

  /// Waits until the callback has returned. Not from inside a callback.
  void wait() const { detail::error_output().check(raskio_op_wait(get(), RASKIO_UNLIMITED)); }

  /// As wait(); false if it has not returned in time.
  bool wait_for(std::chrono::milliseconds timeout) const {
    raskio_status status = raskio_op_wait(get(), detail::milliseconds(timeout));
    if (status == RASKIO_ERR_TIMED_OUT) return false;
    detail::error_output().check(status);
    return true;
  }
};

namespace detail {

template <class Callable>
void call(void* user_data, const raskio_result* c) noexcept {
  std::unique_ptr<Callable> done(static_cast<Callable*>(user_data));
  try {
    (*done)(result(*c));
  } catch (...) {
  }
}

template <class Done, class Start>
op start(Done&& done, Start&& start) {
  using callable = std::decay_t<Done>;
  static_assert(std::is_invocable_v<callable&, const result&>, "done is called with a const raskio::result&");
  auto owned = std::make_unique<callable>(std::forward<Done>(done));
  raskio_op* started = nullptr;
  error_output error;
  error.check(start(&call<callable>, static_cast<void*>(owned.get()), &started, error.out()));
  // The callback owns it now, and may have destroyed it already.
  static_cast<void>(owned.release());
  return op(started);
}

}  // namespace detail

/// One remote object or local file.
class object : public detail::handle<raskio_object, raskio_object_acquire, raskio_object_release> {
 public:
  using handle::handle;

  /// The size, if it is known: asks nobody.
  std::optional<std::uint64_t> size() const noexcept {
    std::uint64_t size = raskio_object_size(get());
    if (size == RASKIO_SIZE_UNKNOWN) return std::nullopt;
    return size;
  }

  /// What is known without asking.
  raskio_object_info info() const {
    raskio_object_info info{};
    info.struct_size = sizeof info;
    detail::error_output().check(raskio_object_info_get(get(), &info));
    return info;
  }

  /// Asks the server for the size.
  std::future<std::uint64_t> stat(const read_options& options = {}) const {
    std::promise<std::uint64_t> promise;
    std::future<std::uint64_t> future = promise.get_future();
    stat_then(
        [promise = std::move(promise), self = *this](const result& stat) mutable {
          if (stat.ok()) {
            promise.set_value(raskio_object_size(self.get()));
          } else {
            promise.set_exception(stat.exception());
          }
        },
        options);
    return future;
  }

  /// As stat(), and waits. Not from inside a callback.
  std::uint64_t stat_sync() const {
    std::uint64_t size = 0;
    detail::error_output error;
    error.check(raskio_object_stat_sync(get(), &size, error.out()));
    return size;
  }

  /// As stat(), and calls done(const raskio::result&); see read_then().
  template <class Done>
  op stat_then(Done&& done, const read_options& options = {}) const {
    return detail::start(std::forward<Done>(done), [&](raskio_done_fn fn, void* user, raskio_op** out, raskio_error** err) {
      return raskio_object_stat(get(), &options, fn, user, out, err);
    });
  }

  /// Reads size bytes from offset into data. The buffer belongs to RaskIO until the future is ready, whether or not the
  /// future is kept. The future's value is the number of bytes read, which is size; with RASKIO_READ_FROM_END it may be less,
  /// and size() knows then where they lie.
  std::future<std::size_t> read(std::uint64_t offset, void* data, std::size_t size,
                                const read_options& options = {}) const {
    std::promise<std::size_t> promise;
    std::future<std::size_t> future = promise.get_future();
    read_then(
        offset, data, size,
        [promise = std::move(promise)](const result& read) mutable {
          if (read.ok()) {
            promise.set_value(static_cast<std::size_t>(read.bytes()));
          } else {
            promise.set_exception(read.exception());
          }
        },
        options);
    return future;
  }

  /// As read(), and waits. Not from inside a callback.
  std::size_t read_sync(std::uint64_t offset, void* data, std::size_t size, const read_options& options = {}) const {
    std::uint64_t bytes = 0;
    detail::error_output error;
    error.check(raskio_read_sync(get(), offset, data, size, &options, &bytes, error.out()));
    return static_cast<std::size_t>(bytes);
  }

  /// As read(), and calls done(const raskio::result&) once, under the rules of raskio_done_fn. `done` may be movable
  /// only; it is destroyed when it has returned, or here if the call throws. An exception that leaves it is dropped:
  /// nobody could catch it.
  template <class Done>
  op read_then(std::uint64_t offset, void* data, std::size_t size, Done&& done,
               const read_options& options = {}) const {
    return detail::start(std::forward<Done>(done), [&](raskio_done_fn fn, void* user, raskio_op** out, raskio_error** err) {
      return raskio_read(get(), offset, data, size, &options, fn, user, out, err);
    });
  }

  /// Writes size bytes from data to offset of a local file that was opened with RASKIO_OBJECT_WRITABLE. Nobody changes the bytes until
  /// the future is ready, whether or not it is kept. Its value is the number of bytes written, which is size. With
  /// RASKIO_WRITE_DURABLE in options.flags they are on the device then.
  std::future<std::size_t> write(std::uint64_t offset, const void* data, std::size_t size,
                                 const read_options& options = {}) const {
    std::promise<std::size_t> promise;
    std::future<std::size_t> future = promise.get_future();
    write_then(
        offset, data, size,
        [promise = std::move(promise)](const result& written) mutable {
          if (written.ok()) {
            promise.set_value(static_cast<std::size_t>(written.bytes()));
          } else {
            promise.set_exception(written.exception());
          }
        },
        options);
    return future;
  }

  /// As write(), and calls done(const raskio::result&); see read_then(). After a failure its bytes() were written.
  template <class Done>
  op write_then(std::uint64_t offset, const void* data, std::size_t size, Done&& done,
                const read_options& options = {}) const {
    return detail::start(std::forward<Done>(done), [&](raskio_done_fn fn, void* user, raskio_op** out, raskio_error** err) {
      return raskio_write(get(), offset, data, size, &options, fn, user, out, err);
    });
  }

  /// Drops a local file's pages from the system's cache, and writes them first where they are dirty.
  void drop_cache() const {
    detail::error_output error;
    error.check(raskio_object_drop_cache(get(), error.out()));
  }
};

/// One range of a batch. The object is borrowed until the call has returned, the buffer until the item has ended.
struct read_spec : raskio_read_spec {
  read_spec(const raskio::object& from, std::uint64_t first, void* into, std::size_t bytes) noexcept
      : raskio_read_spec{from.get(), first, into, bytes, nullptr, 0, 0} {}

  /// The last bytes of an object, or all if it has fewer.
  static read_spec last(const raskio::object& from, void* into, std::size_t bytes) noexcept {
    read_spec spec(from, 0, into, bytes);
    spec.flags = RASKIO_READ_FROM_END;
    return spec;
  }
};
static_assert(sizeof(read_spec) == sizeof(raskio_read_spec), "arrays of it are arrays of raskio_read_spec");

/// Threads, connections, memory and limits. Letting go of the last reference never blocks.
class client : public detail::handle<raskio_client, raskio_client_acquire, raskio_client_release> {
 public:
  using handle::handle;

  /// A new client with the environment's settings and the defaults.
  client() : client(client_options()) {}
  explicit client(const client_options& options) : handle(make(options)) {}

  /// The client of the whole process, made on first use.
  static client process_default() {
    raskio_client* c = nullptr;
    detail::error_output error;
    error.check(raskio_client_default(&c, error.out()));
    return client(c);
  }

  /// Opens an object; no network I/O.
  object open(const std::string& url, const object_options& options = {}) const {
    raskio_object* c = nullptr;
    detail::error_output error;
    error.check(raskio_object_open(get(), detail::c_string(url, "url"), &options, &c, error.out()));
    return object(c);
  }

  /// Reads many ranges as one operation; `specs` is anything with data() and size(), of read_spec. Items fail alone: the
  /// future has the results of all of them, and throws nothing itself. Buffers belong to RaskIO until it is ready, whether or
  /// not it is kept.
  template <class Specs>
  std::future<batch_result> read_batch(const Specs& specs, const batch_options& options = {}) const {
    std::promise<batch_result> promise;
    std::future<batch_result> future = promise.get_future();
    read_batch_then(
        specs, [promise = std::move(promise)](const result& batch) mutable { promise.set_value(batch.batch()); }, options);
    return future;
  }

  /// As read_batch(), with a future for each item, in the order of the specs, ready as the item ends. Its value is the number
  /// of bytes read. options.item_done is not called.
  template <class Specs>
  std::vector<std::future<std::size_t>> read_each(const Specs& specs, batch_options options = {}) const {
    std::vector<std::promise<std::size_t>> promises(std::size(specs));
    std::vector<read_spec> told(std::data(specs), std::data(specs) + std::size(specs));
    std::vector<std::future<std::size_t>> futures;
    futures.reserve(told.size());
    for (std::size_t i = 0; i < told.size(); ++i) {
      futures.push_back(promises[i].get_future());
      told[i].user_data = &promises[i];
    }
    options.item_done = [](void* user_data, std::size_t, const raskio_item_result* item) {
      auto& promise = *static_cast<std::promise<std::size_t>*>(user_data);
      if (item->status == RASKIO_OK) {
        promise.set_value(static_cast<std::size_t>(item->bytes));
      } else {
        promise.set_exception(detail::exception_for(item->status, item->error));
      }
    };
    // Moving a vector moves none of its elements: they stay where the specs say until the batch has ended.
    read_batch_then(told, [promises = std::move(promises)](const result&) {}, options);
    return futures;
  }

  /// As read_batch(), and calls done(const raskio::result&); see object::read_then().
  template <class Specs, class Done>
  op read_batch_then(const Specs& specs, Done&& done, const batch_options& options = {}) const {
    const read_spec* data = std::data(specs);
    return detail::start(std::forward<Done>(done), [&](raskio_done_fn fn, void* user, raskio_op** out, raskio_error** err) {
      return raskio_read_batch(get(), data, std::size(specs), sizeof(read_spec), &options, fn, user, out, err);
    });
  }

  /// Ends every operation with RASKIO_ERR_SHUT_DOWN and waits. Not from inside a callback.
  void shut_down() const { shut_down_within(RASKIO_UNLIMITED); }
  /// As shut_down(); throws timed_out when the time is over first.
  void shut_down(std::chrono::milliseconds timeout) const { shut_down_within(detail::milliseconds(timeout)); }

  /// Gives back idle memory and connections.
  void trim() const noexcept { raskio_client_trim(get()); }

  raskio_stats stats() const {
    raskio_stats stats{};
    stats.struct_size = sizeof stats;
    detail::error_output().check(raskio_client_stats(get(), &stats));
    return stats;
  }

 private:
  static raskio_client* make(const client_options& options) {
    raskio_client* c = nullptr;
    detail::error_output error;
    error.check(raskio_client_new(&options, &c, error.out()));
    return c;
  }

  void shut_down_within(std::uint32_t timeout_ms) const {
    detail::error_output error;
    error.check(raskio_client_shut_down(get(), timeout_ms, error.out()));
  }
};

/// The version of the library that was loaded, as "major.minor.patch".
inline const char* version() noexcept { return raskio_version(); }

}  // namespace raskio

#endif  // RASKIO_HPP
