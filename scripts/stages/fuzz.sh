#!/usr/bin/env bash
# A short run of each fuzz target over the committed seeds: 4 s each, or RASKIO_FUZZ_SECONDS. Builds them as cargo-fuzz
# does, with the stable toolchain and without cargo-fuzz.
. "$(dirname "$0")/../sanitizer.sh"
compiles() { echo 'int main() { return 0; }' | c++ -x c++ -std=c++17 -c -o /dev/null -; }
compiles || skip "no C++ compiler, which builds libFuzzer"
reuse_libraries
# Without a runtime of AddressSanitizer, panics and broken promises are still found.
address=(-Zsanitizer=address)
has_runtime asan || address=()
# The flags of cargo-fuzz 0.13.
instrument fuzz "${address[@]}" --cfg fuzzing --check-cfg 'cfg(fuzzing)' -Cpasses=sancov-module -Ccodegen-units=1 \
  -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
  -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
  -Cllvm-args=-simplifycfg-branch-fold-threshold=0
! "$CARGO" fmt --version || "$CARGO" fmt --manifest-path fuzz/Cargo.toml --check
cargo_sanitized build --release --manifest-path fuzz/Cargo.toml
bin=$sanitized/$host/release
seconds=${RASKIO_FUZZ_SECONDS:-4}
work=$build/fuzz
mkdir -p "$work"
# The targets must decide by themselves what they do.
for name in $(compgen -e | grep '^KVIKIO_' || true); do unset "$name"; done
export ASAN_OPTIONS=allow_addr2line=1

# The fuzzer is on: only one that sees which branches are taken finds four bytes within the time.
if "$bin/planted" -seed=1 -max_total_time=180 -artifact_prefix="$work/planted-" >"$work/planted.log" 2>&1; then
  fail "the planted four bytes were not found in 180 s: the fuzzer does not see coverage"
fi
grep -q 'planted: the four bytes were found' "$work/planted.log" ||
  fail "the planted target failed for another reason: $(tail -n 20 "$work/planted.log")"
passed=1
for target in head retry_after explanation url names answers options; do
  # New inputs go to the first directory and stay there for the next run; the seeds are only read.
  mkdir -p "$work/$target"
  # Its client runs until the process ends, and ends with it.
  if [ "$target" = options ]; then export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0; fi
  if ! "$bin/$target" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$work/$target-" "$work/$target" "fuzz/corpus/$target" >"$work/$target.log" 2>&1; then
    tail -n 60 "$work/$target.log"
    fail "the fuzz target $target found a fault; run it again with: $bin/$target $work/$target-crash-…"
  fi
  say "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$target.log") inputs, $(grep -oE 'cov: [0-9]+' "$work/$target.log" | tail -n 1)"
  passed=$((passed + 1))
done
say "$passed passed, 0 failed, 0 skipped"
