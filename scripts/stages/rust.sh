#!/usr/bin/env bash
# The Rust tests of the workspace, the examples in the documentation included.
. "$(dirname "$0")/../common.sh"
need_rust
if have cargo-nextest; then
  "$CARGO" nextest run --workspace --locked --no-fail-fast
else
  "$CARGO" test --workspace --locked --no-fail-fast --lib --bins --tests
fi
"$CARGO" test --workspace --locked --doc
