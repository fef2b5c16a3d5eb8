#!/usr/bin/env bash
# Separate projects find the installed package, through CMake and through pkg-config, also after it was moved; and
# a version that it does not satisfy is refused.
. "$(dirname "$0")/../common.sh"
need_install
work=$build/consumers
rm -rf "$work"
mkdir -p "$work"
cp -a "$prefix" "$work/moved prefix"
version=$(sed -n 's/^version *= *"\(.*\)"/\1/p' Cargo.toml | head -n 1)
passed=0

# check PROGRAM LIBRARY_DIRECTORY: it runs with that library, and prints its version.
check() {
  local said
  said=$(LD_LIBRARY_PATH=$2 "$1")
  [ "${said%% *}" = "$version" ] || fail "$1 printed '$said', and should print version $version"
  passed=$((passed + 1))
}
for where in "$prefix" "$work/moved prefix"; do
  for generator in "Unix Makefiles" Ninja; do
    [ "$generator" != Ninja ] || have ninja || continue
    directory="$work/cmake $passed"
    env -u LD_LIBRARY_PATH -u PKG_CONFIG_PATH CMAKE_PREFIX_PATH="$where" \
      cmake -S tests_c/consumer_find_package -B "$directory" -G "$generator"
    cmake --build "$directory"
    check "$directory/consumer_c" "$where/lib"
    check "$directory/consumer_cpp" "$where/lib"
    # CMake wrote the library's place into the program, so that it runs from the build directory as it is.
    check "$directory/consumer_c" ""
  done
  directory=$work/pkg-config-$passed
  mkdir -p "$directory"
  PKG_CONFIG_PATH="$where/lib/pkgconfig" make -C "$directory" -f "$root/tests_c/consumer_pkg_config/Makefile" \
    SOURCES="$root/tests_c"
  check "$directory/consumer_c" "$where/lib"
  check "$directory/consumer_cpp" "$where/lib"
done

# The moved package names no file of the first place.
! grep -rIl -- "$prefix" "$work/moved prefix/lib" || fail "the files above name $prefix: the package cannot be moved"
passed=$((passed + 1))

# While the version is 0.x, another minor version is another interface.
for wanted in 0.0 0.2 1.0; do
  mkdir -p "$work/refuse-$wanted"
  printf 'cmake_minimum_required(VERSION 3.20)\nproject(x LANGUAGES C)\nfind_package(raskio %s REQUIRED)\n' "$wanted" \
    >"$work/refuse-$wanted/CMakeLists.txt"
  if cmake -S "$work/refuse-$wanted" -B "$work/refuse-$wanted/build" >"$work/out" 2>&1; then
    fail "find_package(raskio $wanted) accepted version $version"
  fi
  grep -q 'considered but not accepted' "$work/out" || fail "find_package(raskio $wanted) failed for another reason: $(cat "$work/out")"
  passed=$((passed + 1))
done
! pkg-config --exists 'raskio >= 1.0' || fail "pkg-config says that raskio is 1.0 or later"
passed=$((passed + 1))

# An old cargo is refused when the build is configured, with the version that is needed.
mkdir -p "$work/bin"
printf '#!/bin/sh\necho cargo 1.63.0\n' >"$work/bin/cargo"
chmod +x "$work/bin/cargo"
if cmake -S cmake -B "$work/old-cargo" -DRASKIO_CARGO="$work/bin/cargo" >"$work/out" 2>&1; then
  fail "cmake accepted cargo 1.63"
fi
grep -q 'is 1.63.0, and RaskIO' "$work/out" || fail "cmake rejected cargo 1.63 without saying why: $(cat "$work/out")"
passed=$((passed + 1))
say "$passed passed, 0 failed, 0 skipped"
