#!/usr/bin/env bash
# Formatting and lints, warnings being errors.
. "$(dirname "$0")/../common.sh"
need_rust
"$CARGO" fmt --all --check
"$CARGO" clippy --workspace --all-targets --locked -- -D warnings
