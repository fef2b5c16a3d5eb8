#!/usr/bin/env bash
# Formatting, and clippy's lints.
. "$(dirname "$0")/../common.sh"
need_rust
"$CARGO" fmt --version && "$CARGO" clippy --version || skip "this Rust has no rustfmt or no clippy (rustup component add rustfmt clippy)"
"$CARGO" fmt --all --check
# A warning is an error with every compiler that was tried; a newer one may bring lints that nobody has seen yet.
newest_tried=1.96
if version_at_least "$newest_tried.999" "$(tool_version "$RUSTC")"; then
  "$CARGO" clippy --workspace --all-targets --locked -- -D warnings
else
  "$CARGO" clippy --workspace --all-targets --locked
fi
