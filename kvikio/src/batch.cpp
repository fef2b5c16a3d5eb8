#include "batch.hpp"

#include <raskio_kvikio.h>

#include <utility>
#include <vector>

namespace shim {
namespace {

using Collected = std::vector<std::unique_ptr<Reading>>;

/// What this thread collects; null while it does not.
thread_local std::unique_ptr<Collected> collected;

void item_done(void* user_data, std::size_t, const raskio_item_result* result) {
  conclude(std::unique_ptr<Reading>(static_cast<Reading*>(user_data)), result->status, result->error);
}

void all_done(void*, const raskio_result*) {}

/// One call for all of them, which have one client and one task size. False, and they are untouched, if it was refused.
bool submit_together(const Collected& readings, const raskio_batch_options& options) {
  std::vector<raskio_read_spec> specs;
  specs.reserve(readings.size());
  for (const auto& reading : readings) {
    const Request& request = reading->request;
    raskio_read_spec spec{};
    spec.object = reading->remote->object();
    spec.offset = request.offset;
    spec.data = request.buffer;
    spec.size = request.size;
    spec.user_data = reading.get();
    specs.push_back(spec);
  }
  raskio_client* client = readings.front()->session->client.get();
  return raskio().api->read_batch(client, specs.data(), specs.size(), sizeof specs[0], &options, all_done, nullptr,
                                  nullptr, nullptr) == RASKIO_OK;
}

void submit_alone(std::unique_ptr<Reading> reading) {
  RaskioError error;
  const raskio_status status = start(*reading, error);
  if (status == RASKIO_OK) {
    static_cast<void>(reading.release());
  } else {
    reading->fail(Failure::of(error.get(), status));
  }
}

void submit_group(Collected readings, std::uint64_t gap, std::uint64_t most) {
  raskio_read_options read{};
  read.struct_size = sizeof read;
  read.task_size = readings.front()->request.task_size;
  raskio_batch_options options{};
  options.struct_size = sizeof options;
  options.coalesce_gap = gap;
  options.coalesce_max = most;
  options.read = &read;
  options.item_done = item_done;
  if (submit_together(readings, options)) {
    // Each is RaskIO's until its callback.
    for (auto& reading : readings) static_cast<void>(reading.release());
    return;
  }
  // As a whole it was refused; one by one each gets an answer of its own.
  for (auto& reading : readings) submit_alone(std::move(reading));
}

}  // namespace

bool collect(std::unique_ptr<Reading>& reading) {
  if (collected == nullptr) return false;
  collected->push_back(std::move(reading));
  return true;
}

}  // namespace shim

extern "C" {

int raskio_kvikio_batch_begin(void) noexcept {
  try {
    if (shim::collected != nullptr) return 1;
    shim::collected = std::make_unique<shim::Collected>();
    return 0;
  } catch (...) {
    return 1;
  }
}

int64_t raskio_kvikio_batch_submit(uint64_t coalesce_gap, uint64_t coalesce_max) noexcept {
  const std::unique_ptr<shim::Collected> all = std::move(shim::collected);
  if (all == nullptr) return -1;
  try {
    const auto items = static_cast<std::int64_t>(all->size());
    shim::counters().batch_items.fetch_add(all->size(), std::memory_order_relaxed);
    // Settings seldom change in the middle of a batch: mostly there is one group.
    while (!all->empty()) {
      shim::Collected group, rest;
      for (auto& reading : *all) {
        const bool same = group.empty() || (reading->session == group.front()->session &&
                                            reading->request.task_size == group.front()->request.task_size);
        (same ? group : rest).push_back(std::move(reading));
      }
      *all = std::move(rest);
      shim::submit_group(std::move(group), coalesce_gap, coalesce_max);
    }
    return items;
  } catch (...) {
    // Whoever waits for what was not handed over gets a broken promise.
    return -1;
  }
}

void raskio_kvikio_batch_abandon(void) noexcept { shim::collected.reset(); }

}  // extern "C"
