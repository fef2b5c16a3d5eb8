# Sourced by the stages asan, tsan and fuzz: a build whose Rust code is instrumented, by the stable toolchain. Bash.
# RUSTC_BOOTSTRAP=1 lets it take the flags; it is set for these test builds alone.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_rust
host=$("$RUSTC" -vV | sed -n 's/^host: //p')

# rust.org's toolchains bring the sanitizers' runtimes, those of some distributions do not.
has_runtime() { compgen -G "$("$RUSTC" --print sysroot)/lib/rustlib/$host/lib/librustc-*_rt.$1.a" >/dev/null; }
need_runtime() { has_runtime "$1" || skip "this Rust has no runtime of the sanitizer '$1' (rustup's toolchains have it)"; }

# The bundled libcurl and OpenSSL take minutes to build and are not what is looked at: those of another build in this
# checkout serve, if they are of the versions in Cargo.lock. Without one they are built once more.
reuse_libraries() {
  local version out output
  reuse_openssl release debug
  version=$(locked curl-sys)
  version=${version#curl-}
  while read -r out; do
    output=$(dirname "$out")/output
    if grep -qs "LIBCURL_VERSION \"$version" "$out/include/curl/curlver.h" && grep -qs 'rustc-cfg=link_openssl' "$output"; then
      # What its build script said, in place of the script (https://doc.rust-lang.org/cargo/reference/build-scripts.html).
      {
        echo "[target.$host.curl]"
        echo 'rustc-link-lib = ["static=curl"]'
        echo "rustc-link-search = [\"native=$out/build\"]"
        echo "rustc-cfg = [$(sed -n 's/^cargo:rustc-cfg=\(.*\)/"\1",/p' "$output" | tr -d '\n')]"
        echo "include = \"$out/include\""
        echo "root = \"$out\""
        echo 'static = "1"'
      } >"$build/reused.toml"
      reused=(--config "$build/reused.toml")
      break
    fi
  done < <(newest build/libcurl.a release debug)
}
reused=()

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
  RUSTC_BOOTSTRAP=1 "$CARGO" "${command[@]}" "${reused[@]}" --locked --target "$host" --target-dir "$sanitized" "$@"
}

# must_report TEST TEXT: the planted bug (tests/planted/bugs.rs) has to end in a report that says TEXT.
planted=0
must_report() {
  local log=$build/planted-$1.log
  if cargo_sanitized test --features fault-injection --test planted -- --ignored --exact "bugs::$1" --nocapture >"$log" 2>&1; then
    fail "the planted bug '$1' was not caught: the sanitizer is off, or does not see Rust code"
  fi
  grep -qE -- "$2" "$log" || fail "the planted bug '$1' did not end in a report of '$2': $(tail -n 40 "$log")"
  planted=$((planted + 1))
  say "planted: $1 is reported"
}
