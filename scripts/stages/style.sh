#!/usr/bin/env bash
# Formatting and lints, warnings being errors.
. "$(dirname "$0")/../common.sh"
need_rust
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
