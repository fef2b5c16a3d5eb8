# Sourced by the other scripts: where things are, and what several of them need. Bash.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build=$root/build
prefix=$build/prefix
target=${CARGO_TARGET_DIR:-$root/target}
rust_needed=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' "$root/Cargo.toml")
jobs=${RASKIO_JOBS:-$(nproc)}
mkdir -p "$build"
cd "$root"

say() { printf '%s\n' "$*"; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
# A stage that cannot run here says why; the caller counts it as skipped.
skip() {
  printf 'skipped: %s\n' "$*"
  exit 77
}
have() { command -v "$1" >/dev/null 2>&1; }

# version_at_least FOUND NEEDED
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }
tool_version() { "$@" --version 2>/dev/null | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1 || true; }

# Sets and exports CARGO and RUSTC to the first pair that is new enough: the caller's, PATH's, rustup's, and the
# versioned names (cargo-1.89) of some distributions. Returns 1 if there is none.
find_rust() {
  local pair cargo rustc versioned=()
  mapfile -t versioned < <(compgen -c cargo-1. | sort -Vru)
  for pair in "${CARGO:-cargo} ${RUSTC:-rustc}" "cargo rustc" "$HOME/.cargo/bin/cargo $HOME/.cargo/bin/rustc" \
    "${versioned[@]/%/ }"; do
    read -r cargo rustc <<<"$pair"
    rustc=${rustc:-rustc-${cargo#cargo-}}
    if version_at_least "$(tool_version "$cargo")" "$rust_needed" &&
      version_at_least "$(tool_version "$rustc")" "$rust_needed"; then
      CARGO=$(command -v "$cargo") RUSTC=$(command -v "$rustc")
      export CARGO RUSTC
      return 0
    fi
  done
  return 1
}
need_rust() {
  find_rust || fail "no Rust $rust_needed or later was found: run scripts/setup.sh demo"
}

# What is behind the + of a crate's version: that of the library inside.
locked() { awk -v name="name = \"$1\"" '$0 == name { getline; sub(/.*\+/, ""); sub(/"/, ""); print }' Cargo.lock; }
# newest FILE PROFILE…: the output directories of build scripts that hold this file, the newest first.
newest() {
  local file=$1 profile
  shift
  for profile in "$@"; do ls -dt "$target/$profile"/build/*/out/"$file" 2>/dev/null | sed "s|/out/$file\$|/out|" || true; done
}
# reuse_openssl PROFILE…: cargo takes the OpenSSL that a build of one of these profiles made, if it is of the version in
# Cargo.lock, instead of building it once more for a minute.
reuse_openssl() {
  local version out
  version=$(locked openssl-src)
  while read -r out; do
    out=$out/openssl-build/install
    if grep -qs "OPENSSL_VERSION_STR \"$version\"" "$out/include/openssl/opensslv.h"; then
      export OPENSSL_DIR=$out OPENSSL_NO_VENDOR=1 OPENSSL_STATIC=1
      return
    fi
  done < <(newest openssl-build/install/lib/libssl.a "$@")
}
# In a checkout where nothing was built for tests before, they link the installed library's OpenSSL. Where something was, they
# go on with that: cargo would build everything anew for another one, now and at the next `cargo test`.
spare_openssl() {
  if [ -z "$(newest openssl-build/install/lib/libssl.a debug)" ]; then reuse_openssl release; fi
}

# Configures, builds and installs the library into build/prefix.
install_library() {
  need_rust
  cmake -S cmake -B "$build/cmake" -DRASKIO_CARGO="$CARGO" -DRASKIO_CARGO_TARGET_DIR="$target" >"$build/configure.log" 2>&1 || {
    cat "$build/configure.log" >&2
    fail "cmake could not configure the build"
  }
  cmake --build "$build/cmake"
  rm -rf "$prefix"
  cmake --install "$build/cmake" --prefix "$prefix" >/dev/null
}
need_install() {
  [ -e "$prefix/lib/libraskio.so" ] || install_library
  # Whoever builds against the installed package finds it by these.
  export CMAKE_PREFIX_PATH=$prefix PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
}

# Simulated CUDA drivers, each in a directory for LD_LIBRARY_PATH below $simcuda: the whole one; one of the time of CUDA 11.0;
# one that lacks what nothing works without.
simcuda=$build/simcuda
install_simcuda() {
  need_rust
  sh scripts/cargo.sh build --quiet --release --locked -p raskio-simcuda
  local library=$target/release/libsimcuda.so
  sh simcuda/install.sh "$library" "$simcuda/whole"
  sh simcuda/install.sh "$library" "$simcuda/old" cuCtxCreate_v4 cuCtxGetId cuEventRecordWithFlags cuGetProcAddress \
    cuGetProcAddress_v2 cuMemAllocAsync cuMemFreeAsync cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v3 cuLaunchHostFunc
  sh simcuda/install.sh "$library" "$simcuda/lacking" cuMemcpyHtoDAsync_v2
}

# environment STAGE: makes its Python environment. On a machine without a way to the package index everything else can be tested
# all the same; in CI it must not go unnoticed.
environment() {
  local status=0 words
  words=$(bash scripts/environments.sh "$1") || status=$?
  case $status in
    0) ;;
    77) if [ -n "${CI:-}" ]; then fail "$words"; else skip "${words#skipped: }"; fi ;;
    *) fail "the environment of the stage $1 could not be made: $words" ;;
  esac
}

# start_server NAME=SIZE…: runs the loopback server until stop_server, or the end of the script; sets url and server_pid,
# and leaves its words in $server_dir/log ("object NAME SIZE crc32 XXXXXXXX").
start_server() {
  local arguments=() object
  for object in "$@"; do arguments+=(--object "$object"); done
  # RASKIO_TESTSERVER names one that was built elsewhere.
  local program=${RASKIO_TESTSERVER:-$target/release/raskio-testserver}
  if [ -z "${RASKIO_TESTSERVER:-}" ]; then
    need_rust
    sh scripts/cargo.sh build --quiet --release --locked -p raskio-testserver
  fi
  server_dir=$(mktemp -d)
  trap stop_server EXIT
  mkfifo "$server_dir/stdin"
  "$program" "${arguments[@]}" --port-file "$server_dir/port" \
    <"$server_dir/stdin" >"$server_dir/log" 2>&1 &
  server_pid=$!
  # It serves until its standard input is closed, which also happens if this script is killed.
  exec {server_stdin}>"$server_dir/stdin"
  for _ in $(seq 600); do
    if grep -q '^listening on ' "$server_dir/log"; then
      url=$(sed -n 's/^listening on //p' "$server_dir/log" | head -n 1)
      return 0
    fi
    kill -0 "$server_pid" 2>/dev/null || break
    sleep 0.1
  done
  cat "$server_dir/log" >&2
  fail "the loopback server did not start"
}
stop_server() {
  if [ -n "${server_pid:-}" ]; then
    exec {server_stdin}>&-
    kill "$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
    server_pid=
  fi
  if [ -n "${server_dir:-}" ]; then rm -rf "$server_dir"; fi
}
