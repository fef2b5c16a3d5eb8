#include "kvikio.hpp"

#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <memory>
#include <mutex>
#include <typeinfo>

namespace shim {
namespace {

/// One vtable that was looked at. Nodes are never freed: a walk through them needs no lock.
struct Node {
  Class what;
  Node* next;
};

std::atomic<Node*> classes{nullptr};
std::atomic<const Kvikio*> primary{nullptr};

/// Guards finding libraries. Taken on slow paths only.
std::atomic<std::mutex*> finding{new std::mutex};
thread_local bool checking = false;

/// Libraries that were found, by what dlopen calls them.
std::vector<std::unique_ptr<Kvikio>>& libraries() {
  static auto* all = new std::vector<std::unique_ptr<Kvikio>>;
  return *all;
}

/// Its address is in this library, whoever else defines functions of the names that this one exports.
const char anchor = 0;

/// The name of the file that holds this address, as dlopen takes it: empty for the program itself.
bool file_of(const void* address, std::string& name) {
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return false;
  name = map->l_name != nullptr ? map->l_name : "";
  return true;
}

/// The file that the virtual functions of a library's endpoints lead to.
bool binds_to(const Kvikio& kvikio, std::string& file) {
  const auto* table = static_cast<const void* const*>(kvikio.symbol(abi::vtables[0]));
  return table != nullptr && file_of(table[abi::vtable_begin + abi::vtable_get_file_size], file);
}

void find_everything(Kvikio& kvikio) {
  kvikio.find(kvikio.originals.pread, abi::pread);
  kvikio.find(kvikio.originals.read, abi::read);
  kvikio.find(kvikio.originals.is_host_memory, abi::is_host_memory);
  for (std::size_t i = 0; i < kinds; ++i) kvikio.find(kvikio.originals.size[i], abi::size_functions[i]);

  Defaults& defaults = kvikio.defaults;
  kvikio.find(defaults.remote_io_backend, "_ZN6kvikio8defaults17remote_io_backendEv");
  kvikio.find(defaults.remote_io_num_reactors, "_ZN6kvikio8defaults22remote_io_num_reactorsEv");
  kvikio.find(defaults.remote_io_reactor_dispatch, "_ZN6kvikio8defaults26remote_io_reactor_dispatchEv");
  kvikio.find(defaults.remote_io_max_concurrent_requests, "_ZN6kvikio8defaults33remote_io_max_concurrent_requestsEv");
  kvikio.find(defaults.http_max_attempts, "_ZN6kvikio8defaults17http_max_attemptsEv");
  kvikio.find(defaults.http_timeout, "_ZN6kvikio8defaults12http_timeoutEv");
  kvikio.find(defaults.http_status_codes, "_ZN6kvikio8defaults17http_status_codesEv");
  kvikio.find(defaults.task_size, "_ZN6kvikio8defaults9task_sizeEv");
  kvikio.find(defaults.bounce_buffer_size, "_ZN6kvikio8defaults18bounce_buffer_sizeEv");
  kvikio.find(defaults.num_threads, "_ZN6kvikio8defaults11num_threadsEv");

  Hooks& hooks = kvikio.hooks;
  kvikio.find(hooks.monitoring_enabled, "_ZN6kvikio6detail18monitoring_enabledEv");
  kvikio.find(hooks.recorder_make,
              "_ZN6kvikio6detail26LogicalObservationRecorderC1ENS_9IoBackendENS_17TransferDirectionENS_10MemoryKind"
              "EmmSt17basic_string_viewIcSt11char_traitsIcEEPKc");
  kvikio.find(hooks.recorder_destroy, "_ZN6kvikio6detail26LogicalObservationRecorderD1Ev");
  kvikio.find(hooks.recorder_finish, "_ZN6kvikio6detail26LogicalObservationRecorder6finishEm");
  kvikio.find(hooks.recorder_fail, "_ZN6kvikio6detail26LogicalObservationRecorder19finish_with_failureEv");
  if (hooks.recorder_destroy == nullptr || hooks.recorder_finish == nullptr || hooks.recorder_fail == nullptr) {
    hooks.recorder_make = nullptr;
  }
  kvikio.find(hooks.count_size_probe,
              "_ZN6kvikio6detail23count_remote_size_probeENSt6chrono8durationIlSt5ratioILl1ELl1000000000EEEE");
  kvikio.find(hooks.count_connection,
              "_ZN6kvikio6detail21count_http_connectionEmNSt6chrono8durationIlSt5ratioILl1ELl1000000000EEEES5_S5_");
  kvikio.find(hooks.count_retry,
              "_ZN6kvikio6detail16count_http_retryENSt6chrono8durationIlSt5ratioILl1ELl1000000000EEEE");
  // Releases before 26.10 have a logger too, and print these notices on standard output all the same.
  if (hooks.count_retry != nullptr) {
    kvikio.find(hooks.default_logger, "_ZN6kvikio14default_loggerEv");
    kvikio.find(hooks.log, "_ZN13rapids_logger6logger3logENS_10level_enumERKNSt7__cxx1112basic_stringIcSt11char_"
                           "traitsIcESaIcEEE");
  }
}

/// The record of a library, made and checked when it is first seen. The lock is held.
const Kvikio* library(const std::string& name) {
  void* handle = dlopen(name.empty() ? nullptr : name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  for (const auto& known : libraries()) {
    if (known->handle == handle) {
      dlclose(handle);
      return known.get();
    }
  }
  auto made = std::make_unique<Kvikio>();
  // Kept for ever: what was found in it must not go away.
  made->handle = handle;
  made->path = name.empty() ? "(the program itself)" : name;
  find_everything(*made);
  checking = true;
  made->fault = self_check(*made);
  checking = false;
  libraries().push_back(std::move(made));
  return libraries().back().get();
}

const Kvikio* find_primary() {
  const Kvikio* found = nullptr;
  void* handle = dlopen("libkvikio.so", RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) {
    link_map* map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) found = library(map->l_name);
    dlclose(handle);
  }
  if (found == nullptr) {
    // Under another name, or linked into the program: then it is global, and comes after this library.
    std::string name;
    if (void* symbol = dlsym(RTLD_NEXT, abi::pread); symbol != nullptr && file_of(symbol, name)) found = library(name);
  }
  return found;
}

Class look(const void* vtable) {
  const auto* type = static_cast<const std::type_info*>(
      static_cast<const void* const*>(vtable)[abi::vtable_type_info]);
  Class what{vtable, Kind::unknown, nullptr};
  for (std::size_t i = 0; type != nullptr && i < kinds; ++i) {
    const char* name = type->name();
    // A name that begins with '*' is compared by address elsewhere; its text is the rest.
    if (std::strcmp(name + (*name == '*' ? 1 : 0), abi::class_names[i]) == 0) what.kind = static_cast<Kind>(i);
  }
  std::string name;
  if (what.kind != Kind::unknown && file_of(vtable, name)) what.kvikio = library(name);
  if (what.kvikio == nullptr) {
    what.kvikio = find_primary();
    what.kind = Kind::unknown;
  }
  return what;
}

}  // namespace

void* Kvikio::symbol(const char* name) const {
  void* found = dlsym(handle, name);
  // In the scope of a program that holds KvikIO itself, this library comes first.
  std::string from, ours;
  if (found != nullptr && file_of(found, from) && file_of(&anchor, ours) && from == ours) {
    return dlsym(RTLD_NEXT, name);
  }
  return found;
}

bool Kvikio::is_bound_to_us() const {
  std::string where, ours;
  return binds_to(*this, where) && file_of(&anchor, ours) && where == ours;
}

bool Kvikio::is_bound_to_a_copy() const {
  std::string where, status;
  if (is_bound_to_us() || !binds_to(*this, where)) return false;
  void* copy = dlopen(where.empty() ? nullptr : where.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (copy == nullptr) return false;
  const bool has_status = file_of(dlsym(copy, "raskio_kvikio_status"), status) && status == where;
  dlclose(copy);
  return has_status;
}

bool is_checking() noexcept { return checking; }

void forget_locks() noexcept { finding.store(new std::mutex, std::memory_order_release); }

const Kvikio* known_kvikio() noexcept { return primary.load(std::memory_order_acquire); }

const Kvikio* primary_kvikio() noexcept {
  if (const Kvikio* known = known_kvikio()) return known;
  try {
    const std::lock_guard<std::mutex> lock(*finding.load(std::memory_order_acquire));
    const Kvikio* found = find_primary();
    if (found != nullptr) primary.store(found, std::memory_order_release);
    return found;
  } catch (...) {
    return nullptr;
  }
}

Class class_of(const void* endpoint) {
  const void* vtable = vtable_of(endpoint);
  for (const Node* node = classes.load(std::memory_order_acquire); node != nullptr; node = node->next) {
    if (node->what.vtable == vtable) return node->what;
  }
  const std::lock_guard<std::mutex> lock(*finding.load(std::memory_order_acquire));
  Class what = look(vtable);
  // Two threads may add the same one: harmless.
  Node* node = new Node{what, classes.load(std::memory_order_relaxed)};
  while (!classes.compare_exchange_weak(node->next, node, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return what;
}

bool is_first_in_scope() noexcept {
  std::string from, ours;
  const void* found = dlsym(RTLD_DEFAULT, abi::pread);
  return found != nullptr && file_of(found, from) && file_of(&anchor, ours) && from == ours;
}

std::string own_path() {
  Dl_info info{};
  if (dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

}  // namespace shim
