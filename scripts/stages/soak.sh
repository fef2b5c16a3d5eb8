#!/usr/bin/env bash
# Random faults on random reads over both backends: every byte and every error is checked, and nothing may grow.
# A short form by default; `make soak` gives it minutes: READS, MINUTES and SEED say how much and what.
. "$(dirname "$0")/../common.sh"
need_rust
spare_openssl
planted='a planted panic'
# The dev profile: its checks of overflow and its assertions are on, and the installed library is never taken from it. In
# the release profile this build would replace deps/libraskio.so, which cargo takes for the one without faults.
# A run of cargo's own for this one package: in a build of the whole workspace the faults would get into every test.
"$CARGO" build --quiet --locked -p raskio-soak --features fault-injection
program=$target/debug/raskio-soak
# Which build can fail on demand is plain to see: in this one, and not in the installed one.
grep -qaF "$planted" "$program" || fail "the soak is built without faults inside: it does not hold the text '$planted'"
if [ -e "$prefix/lib/libraskio.so" ] && grep -qaF "$planted" "$prefix/lib/libraskio.so"; then
  fail "the installed library is built with faults inside: it holds the text '$planted'"
fi
# Few arenas, so that what the allocator keeps for its threads is not mistaken for growth.
export MALLOC_ARENA_MAX=2
"$program" --reads "${READS:-6000}" --minutes "${MINUTES:-1}" --seed "${SEED:-1}"
