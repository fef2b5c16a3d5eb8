#!/usr/bin/env bash
# Every interleaving (within loom's bounds) of the operation, the request limiter and the inbox.
. "$(dirname "$0")/../common.sh"
need_rust
# The crate in loom/ compiles those modules alone, so that no C library is built for this.
export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}" CARGO_TARGET_DIR=$target/loom LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}
"$CARGO" test --release --locked -p raskio-loom --tests
