// One call as KvikIO's monitors see it (26.10).
#pragma once

#include "kvikio.hpp"

#include <string_view>

namespace shim {

/// Recorded if anybody listens. An end must be told before the caller learns of it; without one it counts as failed.
class Observation {
 public:
  Observation() = default;
  ~Observation() {
    if (hooks_ != nullptr) hooks_->recorder_destroy(place_);
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  /// A read of an object by GET. `source` must outlive this.
  void begin(const Hooks& hooks, Kind kind, bool device, std::size_t offset, std::size_t size, std::string_view source) {
    // KvikIO's numbers: REMOTE_HTTP, REMOTE_HDFS; READ; HOST, DEVICE.
    hooks.recorder_make(place_, kind == Kind::webhdfs ? 4 : 3, 0, device ? 1 : 0, offset, size, source, "GET");
    hooks_ = &hooks;
  }
  void finish(std::size_t bytes) {
    if (hooks_ != nullptr) hooks_->recorder_finish(place_, bytes);
  }
  void fail() {
    if (hooks_ != nullptr) hooks_->recorder_fail(place_);
  }

 private:
  const Hooks* hooks_ = nullptr;
  /// KvikIO's object has 88 bytes in 26.10.
  alignas(std::max_align_t) unsigned char place_[256];
};

/// Counts a question for a size, from here to the end of the scope, however it ends.
class SizeProbe {
 public:
  explicit SizeProbe(const Hooks& hooks) : hooks_(hooks), begin_(std::chrono::steady_clock::now()) {}
  ~SizeProbe() {
    if (hooks_.count_size_probe != nullptr) hooks_.count_size_probe(std::chrono::steady_clock::now() - begin_);
  }
  SizeProbe(const SizeProbe&) = delete;
  SizeProbe& operator=(const SizeProbe&) = delete;

 private:
  const Hooks& hooks_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace shim
