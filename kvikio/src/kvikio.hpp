// The libkvikio.so of this process: found at run time, nothing of it is linked.
#pragma once

#include "abi.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shim {

using Nanoseconds = std::chrono::nanoseconds;

/// KvikIO's own functions that this library stands before.
struct Originals {
  std::future<std::size_t> (*pread)(void*, void*, std::size_t, std::size_t, std::size_t, BS::thread_pool*) = nullptr;
  std::size_t (*read)(void*, void*, std::size_t, std::size_t) = nullptr;
  std::size_t (*size[kinds])(void*) = {};
  bool (*is_host_memory)(void const*) = nullptr;
};

/// Its settings. Those that a release does not have are null.
struct Defaults {
  std::uint8_t (*remote_io_backend)() = nullptr;           // 26.08
  unsigned (*remote_io_num_reactors)() = nullptr;          // 26.08
  std::uint8_t (*remote_io_reactor_dispatch)() = nullptr;  // 26.08
  std::size_t (*remote_io_max_concurrent_requests)() = nullptr;
  std::size_t (*http_max_attempts)() = nullptr;
  long (*http_timeout)() = nullptr;
  const std::vector<int>& (*http_status_codes)() = nullptr;
  std::size_t (*task_size)() = nullptr;
  std::size_t (*bounce_buffer_size)() = nullptr;
  unsigned (*num_threads)() = nullptr;
};

/// Its statistics and its log, from 26.10 on; null before.
struct Hooks {
  bool (*monitoring_enabled)() = nullptr;
  void (*recorder_make)(void*, std::uint8_t backend, std::uint8_t direction, std::uint8_t memory, std::size_t offset,
                        std::size_t size, std::string_view source, const char* method) = nullptr;
  void (*recorder_destroy)(void*) = nullptr;
  void (*recorder_finish)(void*, std::size_t) = nullptr;
  void (*recorder_fail)(void*) = nullptr;
  void (*count_size_probe)(Nanoseconds) = nullptr;
  void (*count_connection)(std::uint64_t, Nanoseconds dns, Nanoseconds tcp, Nanoseconds tls) = nullptr;
  void (*count_retry)(Nanoseconds) = nullptr;
  void* (*default_logger)() = nullptr;
  void (*log)(void* logger, int level, const std::string& text) = nullptr;
  /// Constructor, destructor and both ends are there.
  bool has_recorder() const { return monitoring_enabled != nullptr && recorder_make != nullptr; }
};

/// One libkvikio.so. It stays loaded and this stays where it is, for as long as the process lives.
struct Kvikio {
  void* handle = nullptr;
  std::string path;
  /// Why its reads are left to it. Empty: they are not.
  std::string fault;
  Originals originals;
  Defaults defaults;
  Hooks hooks;

  void* symbol(const char* name) const;
  template <typename F>
  void find(F& function, const char* name) const {
    function = reinterpret_cast<F>(symbol(name));
  }
  /// Its virtual functions lead here: it was loaded after this library.
  bool is_bound_to_us() const;
  /// They lead to another copy of this library, which came first.
  bool is_bound_to_a_copy() const;
};

/// Checks, by means of its own constructors, that things lie where abi.hpp says. The reason if they do not.
std::string self_check(const Kvikio& kvikio);

/// This thread is inside self_check: what KvikIO's constructors call of ours meanwhile must not look for KvikIO.
bool is_checking() noexcept;

/// In a forked child: another thread may have been finding libraries, and its lock stays locked.
void forget_locks() noexcept;

/// What stands in the vtable that an object points to.
struct Class {
  const void* vtable;
  Kind kind;
  /// The library that defines the class; for an unknown class the one that was found first.
  const Kvikio* kvikio;
};

/// The library that is loaded under its own name, or whose functions are found behind ours; null if there is none.
const Kvikio* primary_kvikio() noexcept;

/// The same, but only if it was found before: never looks, never locks.
const Kvikio* known_kvikio() noexcept;

/// The class of an endpoint. Looked up once for each vtable.
Class class_of(const void* endpoint);

/// Whether a dlsym in the whole process finds our functions first.
bool is_first_in_scope() noexcept;

/// Where a function of ours is, and the folder of the file that holds it.
std::string own_path();

}  // namespace shim
