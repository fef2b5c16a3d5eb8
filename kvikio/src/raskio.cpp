#include "raskio.hpp"

#include "kvikio.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <link.h>

namespace shim {
namespace {

std::atomic<const Raskio*> opened{nullptr};

/// The file is as long as its program headers say. dlopen does not look, and touching what a half-copied file lacks ends
/// the process (SIGBUS). Whatever is no ELF file is left to dlopen's words.
bool is_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ElfW(Ehdr) header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_phentsize != sizeof(ElfW(Phdr))) {
    return true;
  }
  file.seekg(0, std::ios::end);
  const auto bytes = static_cast<std::uint64_t>(file.tellg());
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) part{};
    if (!file.read(reinterpret_cast<char*>(&part), sizeof part)) return false;
    if (part.p_type == PT_LOAD && (part.p_offset > bytes || part.p_filesz > bytes - part.p_offset)) return false;
  }
  return true;
}

Raskio open() {
  Raskio result;
  std::string path = own_path();
  const std::size_t slash = path.rfind('/');
  path = (slash == std::string::npos ? std::string() : path.substr(0, slash + 1)) + "libraskio.so.0";
  // RTLD_LOCAL: its names, and the libcurl inside, must not become those of the process. Beside this library, else
  // wherever the system looks.
  if (!is_whole(path)) {
    result.fault = "libraskio.so.0 cannot be loaded: " + path + " is cut off (copy or install it again)";
    return result;
  }
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string why;
  if (handle == nullptr) {
    why = dlerror();
    path = "libraskio.so.0";
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == nullptr) {
    result.fault = "libraskio.so.0 cannot be loaded: " + why;
    return result;
  }
  const auto get_api = reinterpret_cast<raskio_get_api_fn>(dlsym(handle, "raskio_get_api"));
  const raskio_api* api = get_api != nullptr ? get_api(RASKIO_ABI_MAJOR) : nullptr;
  if (api == nullptr || !RASKIO_API_HAS(api, set_log_hook)) {
    result.fault = path + " is not a libraskio.so.0 that this library can use";
    return result;
  }
  result.api = api;
  result.path = path;
  result.version = api->version();
  return result;
}

}  // namespace

const Raskio& raskio() {
  static const Raskio* library = [] {
    const auto* made = new Raskio(open());
    if (!made->fault.empty()) {
      std::fprintf(stderr, "raskio_kvikio: %s; KvikIO goes on without RaskIO\n", made->fault.c_str());
    }
    opened.store(made, std::memory_order_release);
    return made;
  }();
  return *library;
}

const Raskio* known_raskio() noexcept { return opened.load(std::memory_order_acquire); }

}  // namespace shim
