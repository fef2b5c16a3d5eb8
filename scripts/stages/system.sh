#!/usr/bin/env bash
# The build that links the system's libcurl and OpenSSL: it works where they are new enough, and says so where not.
. "$(dirname "$0")/../common.sh"
need_rust
have pkg-config || skip "pkg-config is not installed"
pkg-config --exists 'libcurl >= 7.85' 'openssl >= 3.0' || skip "the system's libcurl is older than 7.85, or its OpenSSL than 3.0"
passed=0
work=$build/system
mkdir -p "$work"
system_target=$target/system
cmake -S cmake -B "$work/cmake" -DRASKIO_SYSTEM_CURL=ON -DRASKIO_SYSTEM_OPENSSL=ON -DRASKIO_CARGO="$CARGO" \
  -DRASKIO_CARGO_TARGET_DIR="$system_target"
cmake --build "$work/cmake"
cmake --install "$work/cmake" --prefix "$work/prefix" >/dev/null
library=$work/prefix/lib/libraskio.so
bash scripts/check_library.sh "$library" libcurl.so.4 libssl.so.3 libcrypto.so.3 libz.so.1
readelf -dW "$library" | grep -q 'NEEDED.*libcurl\.so' || fail "the library does not need libcurl.so: it was not taken from the system"
passed=$((passed + 2))

# It reads, too.
start_server demo.bin=33554432
crc=$(awk '$1 == "object" { print $NF }' "$server_dir/log")
CMAKE_PREFIX_PATH=$work/prefix cmake -S examples -B "$work/examples" >/dev/null
cmake --build "$work/examples" --target read
LD_LIBRARY_PATH=$work/prefix/lib "$work/examples/read" "$url/demo.bin" "$crc"
passed=$((passed + 1))

# refused TEXT FEATURES: cargo must stop, and say TEXT. PKG_CONFIG_PATH has the faked packages in front.
refused() {
  local text=$1 features=$2
  if CARGO_TARGET_DIR=$system_target "$CARGO" check --locked --no-default-features --features "$features" >"$work/out" 2>&1; then
    fail "the build was not stopped (expected: $text)"
  fi
  grep -q -- "$text" "$work/out" || fail "the build was stopped without saying '$text': $(tail -n 20 "$work/out")"
  passed=$((passed + 1))
}
mkdir -p "$work/old"
printf 'Name: libcurl\nDescription: faked\nVersion: 7.84.0\nLibs: -lcurl\nCflags:\n' >"$work/old/libcurl.pc"
PKG_CONFIG_PATH=$work/old refused "libcurl is 7.84.0, and RaskIO needs 7.85.0" ""
# Cargo would build OpenSSL first, for minutes, and then refuse.
OPENSSL_NO_VENDOR=1 refused "bundled-openssl needs bundled-curl" bundled-openssl
say "$passed passed, 0 failed, 0 skipped"
