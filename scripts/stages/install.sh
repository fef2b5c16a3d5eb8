#!/usr/bin/env bash
# Builds and installs into build/prefix, with Make and, where it is there, with Ninja: both must give the same files.
. "$(dirname "$0")/../common.sh"
install_library
for file in include/raskio.h include/raskio.hpp lib/libraskio.so lib/cmake/raskio/raskio-config.cmake \
  lib/cmake/raskio/raskio-config-version.cmake lib/pkgconfig/raskio.pc include/raskio_kvikio.h lib/libraskio_kvikio.so lib/pkgconfig/raskio-kvikio.pc share/doc/raskio/LICENSE share/doc/raskio/THIRD_PARTY.md; do
  [ -s "$prefix/$file" ] || fail "$file was not installed, or is empty"
done
if have ninja; then
  rm -rf "$build/cmake-ninja" "$build/prefix-ninja"
  cmake -S cmake -B "$build/cmake-ninja" -G Ninja -DRASKIO_CARGO="$CARGO" -DRASKIO_CARGO_TARGET_DIR="$target"
  cmake --build "$build/cmake-ninja"
  cmake --install "$build/cmake-ninja" --prefix "$build/prefix-ninja" >/dev/null
  diff -r "$prefix" "$build/prefix-ninja"
fi
say "installed in $prefix"
