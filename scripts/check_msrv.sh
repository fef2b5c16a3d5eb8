#!/usr/bin/env bash
# Builds and tests, or with the argument `check` only type-checks, with the oldest supported Rust (rust-version in Cargo.toml): rustup's if it is there, else PATH's if it
# is that version, else the packages of a Debian that has it, unpacked into build/msrv and not installed.
. "$(dirname "$0")/common.sh"
is_msrv() { [ "$(tool_version "$@" | cut -d. -f1,2)" = "$rust_needed" ]; }
bin=
if have rustup && rustup toolchain list | grep -q "^$rust_needed"; then
  bin=$(dirname "$(rustup which --toolchain "$(rustup toolchain list | grep -m 1 -o "^$rust_needed[^ ]*")" rustc)")
elif is_msrv cargo && is_msrv rustc; then
  bin=$(dirname "$(command -v cargo)")
else
  bin=$build/msrv/root/usr/bin
  if [ ! -x "$bin/rustc" ]; then
    have apt-get && have dpkg || skip "Rust $rust_needed is not installed, and there is no apt to get it from (rustup toolchain install $rust_needed)"
    # A machine whose package lists were never fetched knows of no package.
    if [ "$(id -u)" -eq 0 ] && [ -z "$(apt-cache madison make 2>/dev/null)" ]; then apt-get update -qq; fi
    for suffix in "" -web none; do
      [ "$suffix" != none ] || skip "neither rustup nor apt has Rust $rust_needed here"
      if apt-cache madison "rustc$suffix" 2>/dev/null | grep -q "| $rust_needed\."; then break; fi
    done
    say "fetching Rust $rust_needed (the packages rustc$suffix, cargo$suffix and what they need) into build/msrv"
    mkdir -p "$build/msrv/archives/partial" "$build/msrv/root"
    apt-get install -y -qq --download-only --no-install-recommends --reinstall --allow-downgrades \
      -o Dir::Cache::archives="$build/msrv/archives" \
      "cargo$suffix=$rust_needed.*" "rustc$suffix=$rust_needed.*" "libstd-rust$suffix-dev=$rust_needed.*" >/dev/null
    for package in "$build"/msrv/archives/*.deb; do dpkg -x "$package" "$build/msrv/root"; done
  fi
  LD_LIBRARY_PATH=$(find "$build/msrv/root/usr/lib" -maxdepth 1 -type d -name '*-linux-gnu' | head -n 1)
  export LD_LIBRARY_PATH
fi
export PATH=$bin:$PATH CARGO=$bin/cargo RUSTC=$bin/rustc RUSTDOC=$bin/rustdoc CARGO_TARGET_DIR=$target/msrv
say "$("$CARGO" --version), $("$RUSTC" --version)"
is_msrv "$RUSTC" || fail "$RUSTC is not $rust_needed"
if [ "${1:-}" = check ]; then
  # The C libraries are not what is checked: the system's spare their compilation, where it has them.
  features=(--no-default-features)
  if ! { have pkg-config && pkg-config --exists 'libcurl >= 7.85' 'openssl >= 3.0'; }; then features=(); fi
  # What is built for users; the tests, and what they alone need, are for the whole check.
  "$CARGO" check --workspace --locked "${features[@]}"
else
  "$CARGO" build --workspace --locked
  "$CARGO" test --workspace --locked
fi
