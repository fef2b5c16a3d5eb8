// The C functions, and what is said aloud when this library is loaded in a way that has no effect.
#include "errors.hpp"

#include <raskio_kvikio.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <dlfcn.h>

namespace shim {
namespace {

constexpr const char* order =
    "Load libraskio_kvikio.so first: import raskio_kvikio before kvikio, libkvikio or cudf; or LD_PRELOAD; or link it "
    "before KvikIO, as the CMake target raskio::kvikio does";

std::atomic<bool> warned{false};

void warn(const char* what) {
  if (!warned.exchange(true)) std::fprintf(stderr, "raskio_kvikio: %s. %s\n", what, order);
}

/// KvikIO is loaded, and its virtual functions lead neither here nor to another copy of this library.
bool is_passed_over() {
  void* handle = dlopen("libkvikio.so", RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  Kvikio kvikio;
  kvikio.handle = handle;
  const bool passed_over = !kvikio.is_bound_to_us() && !kvikio.is_bound_to_a_copy();
  dlclose(handle);
  return passed_over;
}

void at_exit() {
  if (mode() != Mode::off && is_passed_over()) {
    warn("KvikIO was used and its remote reads did not go through RaskIO: libkvikio.so was found first");
  }
}

__attribute__((constructor)) void loaded() {
  // Opened with RTLD_LOCAL it would stand before nothing.
  if (void* self = dlopen(own_path().c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL)) dlclose(self);
  if (mode() == Mode::off) return;
  if (is_passed_over()) {
    warn("libkvikio.so was loaded before libraskio_kvikio.so, so that its remote reads do not go through RaskIO");
  }
  std::atexit(at_exit);
}

/// Why RaskIO does not do KvikIO's reads: for programs, and in words; null if it does them.
struct Reason {
  std::uint32_t code = RASKIO_KVIKIO_REASON_NONE;
  const char* words = nullptr;
};

Reason why_not() {
  tell_of_mode();
  if (mode() == Mode::off) return {RASKIO_KVIKIO_REASON_OFF, "RASKIO_KVIKIO=off"};
  const Kvikio* kvikio = primary_kvikio();
  if (kvikio == nullptr) return {RASKIO_KVIKIO_REASON_NO_KVIKIO, "KvikIO is not loaded yet"};
  if (kvikio->is_bound_to_a_copy()) {
    return {RASKIO_KVIKIO_REASON_COPY, "another copy of libraskio_kvikio.so was loaded before this one, and does it"};
  }
  if (!kvikio->is_bound_to_us() || !is_first_in_scope()) {
    return {RASKIO_KVIKIO_REASON_TOO_LATE, "libkvikio.so was loaded before libraskio_kvikio.so"};
  }
  if (!kvikio->fault.empty()) return {RASKIO_KVIKIO_REASON_UNKNOWN, kvikio->fault.c_str()};
  if (raskio().api == nullptr) return {RASKIO_KVIKIO_REASON_NO_RASKIO, raskio().fault.c_str()};
  return {};
}

}  // namespace
}  // namespace shim

extern "C" {

int raskio_kvikio_status(raskio_kvikio_info* info) noexcept {
  using namespace shim;
  if (info == nullptr || info->struct_size < sizeof info->struct_size) return 1;
  raskio_kvikio_info now{};
  now.struct_size = std::min(info->struct_size, sizeof now);
  try {
    now.mode = mode() == Mode::off ? RASKIO_KVIKIO_OFF : mode() == Mode::exact ? RASKIO_KVIKIO_EXACT : RASKIO_KVIKIO_ON;
    const Reason why = why_not();
    now.reason = why.words;
    now.reason_code = why.code;
    now.enabled = why.code == RASKIO_KVIKIO_REASON_NONE ? 1 : 0;
    if (const Kvikio* kvikio = known_kvikio()) now.kvikio = kvikio->path.c_str();
    if (const Raskio* library = known_raskio(); library != nullptr && library->api != nullptr) {
      now.raskio = library->path.c_str();
      now.raskio_version = library->version.c_str();
      now.open_objects = open_objects();
    }
    const Counters& counted = counters();
    now.reads = counted.reads.load(std::memory_order_relaxed);
    now.bytes = counted.bytes.load(std::memory_order_relaxed);
    now.failures = counted.failures.load(std::memory_order_relaxed);
    now.size_probes = counted.size_probes.load(std::memory_order_relaxed);
    now.left_to_kvikio = counted.left.load(std::memory_order_relaxed);
    now.left_reason = last_reason();
    now.batch_items = counted.batch_items.load(std::memory_order_relaxed);
  } catch (...) {
    now.enabled = 0;
    now.reason = "out of memory";
    now.reason_code = RASKIO_KVIKIO_REASON_MEMORY;
  }
  std::memcpy(info, &now, now.struct_size);
  return 0;
}

int raskio_kvikio_enabled(void) noexcept {
  try {
    return shim::why_not().code == RASKIO_KVIKIO_REASON_NONE ? 1 : 0;
  } catch (...) {
    return 0;
  }
}

void raskio_kvikio_stop(uint32_t timeout_ms) noexcept {
  try {
    if (const shim::Raskio* library = shim::known_raskio(); library != nullptr && library->api != nullptr) {
      shim::stop(timeout_ms);
    }
  } catch (...) {
  }
}

}  // extern "C"
