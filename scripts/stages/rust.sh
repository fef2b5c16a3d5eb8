#!/usr/bin/env bash
# The Rust tests of the workspace, the examples in the documentation included. Everything is logged meanwhile, libcurl's own
# words included, into build/rust.log: the stage `secrets` looks through it.
. "$(dirname "$0")/../common.sh"
need_rust
spare_openssl
log=$build/rust.log
: >"$log"
# How a log comes about is not to be tested with one switched on already.
quiet=(log_environment log_fork)
# What says how it went is for this stage's log, the rest for the file.
brief() { tee -a "$log" | grep -aE '^ +(PASS|FAIL|SLOW|TIMEOUT|TRY|Summary|SIG[A-Z]+) |^test (result: |.* \.\.\. FAILED)|panicked at|^(warning|error)' || true; }
status=0
if have cargo-nextest; then
  of_quiet=$(printf 'binary(=%s) or ' "${quiet[@]}")
  of_quiet="(${of_quiet% or })"
  nextest=("$CARGO" nextest run --workspace --locked --no-fail-fast --success-output immediate)
  RASKIO_TEST_VERBOSE=1 RUST_LOG=trace "${nextest[@]}" -E "not $of_quiet" 2>&1 | brief || status=1
  "${nextest[@]}" -E "$of_quiet" 2>&1 | brief || status=1
else
  logged=(--lib --bins)
  for test in tests/*.rs; do
    name=$(basename "$test" .rs)
    [[ " ${quiet[*]} " == *" $name "* ]] || logged+=(--test "$name")
  done
  RASKIO_TEST_VERBOSE=1 RUST_LOG=trace "$CARGO" test -p raskio --locked --no-fail-fast "${logged[@]}" -- --nocapture 2>&1 | brief || status=1
  "$CARGO" test -p raskio --locked --no-fail-fast "${quiet[@]/#/--test=}" 2>&1 | brief || status=1
  "$CARGO" test --workspace --exclude raskio --locked --no-fail-fast --lib --bins --tests 2>&1 | brief || status=1
fi
"$CARGO" test --workspace --locked --doc 2>&1 | brief || status=1
if [ "$status" -ne 0 ]; then
  # What failed says why behind its name; where cargo runs the tests, somewhere.
  awk '/^ +(PASS|SLOW|Summary) /{ shown = 0 } /^ +(FAIL|TIMEOUT|SIG[A-Z]+) /{ shown = 1 } shown && !/raskio::curl\]/' "$log" | head -n 200
  have cargo-nextest || grep -aE -A 6 'panicked at' "$log" | head -n 200
  fail "tests failed; everything they said is in $log"
fi
