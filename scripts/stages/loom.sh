#!/usr/bin/env bash
# Every interleaving (within loom's bounds) of the operation, the request limiter and the inbox.
. "$(dirname "$0")/../common.sh"
need_rust
# A build of its own; OpenSSL is not part of what is modelled, so the system's spares its compilation where it is there.
features=bundled-curl
if ! { have pkg-config && pkg-config --exists 'openssl >= 3.0'; }; then features=bundled-curl,bundled-openssl; fi
export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}" CARGO_TARGET_DIR=$target/loom LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3}
"$CARGO" test --release --locked --lib --no-default-features --features "$features" -- loom | tee "$build/loom.out"
# The name filter could match nothing, and that would pass.
grep -qE '^test result: ok\. [1-9][0-9]* passed' "$build/loom.out" || fail "no test has 'loom' in its name"
