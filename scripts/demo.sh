#!/usr/bin/env bash
# Builds, installs, and reads an object: scripts/demo.sh [URL]
# Without a URL, a generated object of 1 GiB from a loopback server of this project.
. "$(dirname "$0")/common.sh"
wanted=${1:-}
bash scripts/setup.sh demo

say "== build and install into build/prefix (the first time compiles libcurl and OpenSSL: some minutes)"
install_library
need_install
say "== build examples/read.c as a project that finds the package with CMake's find_package"
cmake -S examples -B "$build/examples" >"$build/examples.log" 2>&1 || { cat "$build/examples.log" >&2; fail "cmake could not configure examples/"; }
cmake --build "$build/examples" --target read >>"$build/examples.log" 2>&1 || { cat "$build/examples.log" >&2; fail "examples/read.c did not compile"; }

if [ -n "$wanted" ]; then
  say "== read $wanted"
  "$build/examples/read" "$wanted"
else
  say "== start a loopback server with a generated object of 1 GiB"
  start_server demo.bin=1073741824
  crc=$(awk '$1 == "object" { print $NF }' "$server_dir/log")
  say "== read $url/demo.bin (MULTI_POLL; the server says crc32 $crc)"
  "$build/examples/read" "$url/demo.bin" "$crc"
fi
