# Sourced by the stages asan, tsan and fuzz: a build whose Rust code is instrumented, by the stable toolchain. Bash.
# RUSTC_BOOTSTRAP=1 lets it take the flags; it is set for these test builds alone.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
host=$("$RUSTC" -vV | sed -n 's/^host: //p')

# rust.org's toolchains bring the sanitizers' runtimes, those of some distributions do not.
has_runtime() { compgen -G "$("$RUSTC" --print sysroot)/lib/rustlib/$host/lib/librustc-*_rt.$1.a" >/dev/null; }
need_runtime() { has_runtime "$1" || skip "this Rust has no runtime of the sanitizer '$1' (rustup's toolchains have it)"; }

# The bundled OpenSSL takes minutes to build and is not what is looked at: the one of another build in this checkout
# serves, if it is of the version in Cargo.lock.
reuse_openssl() {
  local version header
  version=$(awk '/^name = "openssl-src"/ { getline; sub(/.*\+/, ""); sub(/"/, ""); print }' Cargo.lock)
  for header in "$target"/{release,debug}/build/openssl-sys-*/out/openssl-build/install/include/openssl/opensslv.h; do
    if grep -qs "OPENSSL_VERSION_STR \"$version\"" "$header"; then
      OPENSSL_DIR=${header%/include/openssl/opensslv.h}
      if [ -e "$OPENSSL_DIR/lib/libssl.a" ]; then
        export OPENSSL_DIR OPENSSL_NO_VENDOR=1 OPENSSL_STATIC=1
        return 0
      fi
    fi
  done
  unset OPENSSL_DIR
}

# instrument TARGET_DIRECTORY FLAG…: what cargo_sanitized builds with. An explicit --target keeps the flags off build
# scripts and procedural macros.
instrument() {
  sanitized=$target/$1
  shift
  echo 'fn main() {}' | RUSTC_BOOTSTRAP=1 "$RUSTC" --target "$host" "$@" -o "$build/probe" - 2>"$build/probe.log" ||
    skip "$("$RUSTC" --version) does not take the flags of this build: $(head -n 1 "$build/probe.log")"
  export RUSTFLAGS="$*"
}
cargo_sanitized() {
  local command=("$1")
  shift
  if [ "${command[0]}" = nextest ]; then
    command+=("$1")
    shift
  fi
  RUSTC_BOOTSTRAP=1 "$CARGO" "${command[@]}" --locked --target "$host" --target-dir "$sanitized" "$@"
}

# must_report TEST TEXT: the planted bug (tests/planted.rs) has to end in a report that says TEXT.
planted=0
must_report() {
  local log=$build/planted-$1.log
  if cargo_sanitized test --features fault-injection --test planted -- --ignored --exact "$1" --nocapture >"$log" 2>&1; then
    fail "the planted bug '$1' was not caught: the sanitizer is off, or does not see Rust code"
  fi
  grep -qE -- "$2" "$log" || fail "the planted bug '$1' did not end in a report of '$2': $(tail -n 40 "$log")"
  planted=$((planted + 1))
  say "planted: $1 is reported"
}
