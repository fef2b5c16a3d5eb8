#!/usr/bin/env bash
# Formatting, and clippy's lints.
. "$(dirname "$0")/../common.sh"
need_rust
spare_openssl
"$CARGO" fmt --version && "$CARGO" clippy --version || skip "this Rust has no rustfmt or no clippy (rustup component add rustfmt clippy)"
"$CARGO" fmt --all --check
# A warning is an error with the compilers that this was written with. Older ones warn of what was since found harmless,
# newer ones of what nobody has seen yet; what Cargo.toml denies is an error with all of them.
version=$(tool_version "$RUSTC")
deny=()
if version_at_least "$version" 1.95 && version_at_least 1.96.999 "$version"; then deny=(-D warnings); fi
"$CARGO" clippy --workspace --all-targets --locked -- "${deny[@]}"
