#!/usr/bin/env bash
# AddressSanitizer and LeakSanitizer over the Rust tests, with RaskIO's own code instrumented. libcurl and OpenSSL are not:
# their heap is watched (every block, and what they copy with memcpy and the like), their plain loads and stores are not.
. "$(dirname "$0")/../sanitizer.sh"
need_runtime asan
# The simulated driver is a library that the tests load, and an instrumented one does not load.
sh scripts/cargo.sh build --quiet --locked -p raskio-simcuda
export RASKIO_SIMCUDA=$target/debug/libsimcuda.so
reuse_libraries
instrument asan -Zsanitizer=address -Cforce-frame-pointers=yes --cfg 'raskio_sanitizer="address"'
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:allow_addr2line=1
# Whatever runs in threads, calls back, fails or ends; not what reads the header, the log or the ABI, nor what goes the same
# ways through the code as these and mostly waits.
tests=(batch callbacks cancel connections cuda_batch cuda_broken cuda_buffers cuda_events cuda_failures cuda_lifecycle cuda_memory cuda_reads
  error_replies faults files_read files_write hedging limits name_lookup protocol ranges resume retry shutdown straight threads)
with() { printf -- '--test %s ' "$@"; }
cargo_sanitized test --features fault-injection --lib $(with planted fork "${tests[@]}") --no-run

must_report use_after_free 'AddressSanitizer: heap-use-after-free'
must_report out_of_bounds_write 'AddressSanitizer: heap-buffer-overflow'
must_report read_into_freed_memory 'AddressSanitizer: heap-use-after-free'
grep -q 'raskio::sys::mem::HostBuffer' "$build/planted-read_into_freed_memory.log" ||
  fail "the report of read_into_freed_memory does not name the library's code: it is not instrumented"
must_report leak 'LeakSanitizer: detected memory leaks'

run() {
  local runner=(test)
  if have cargo-nextest; then runner=(nextest run); fi
  cargo_sanitized "${runner[@]}" --features fault-injection --no-fail-fast "$@"
}
# Without leak detection, each for its reason:
names=(
  # As its name says: libcurl's handle is never freed.
  a_handle_that_libcurl_keeps_is_leaked_and_its_request_starts_over
  # The process ends in the middle of its reads, and frees nothing.
  a_process_with_reads_in_flight_ends_well
  the_process_may_exit_with_device_reads_in_flight
  a_process_whose_context_breaks_exits_and_says_it_once
  # The driver keeps a function's data for ever if its context breaks before the call.
  an_error_on_a_callers_stream_is_noticed_without_its_host_function
  a_read_into_a_broken_context_is_refused_at_once_with_its_error
  reads_of_a_context_that_breaks_end_with_its_error_and_others_go_on
  a_context_that_breaks_at_any_call_ends_its_reads
  # A forked child has its parent's memory, but not the threads whose stacks refer to it.
  a_forked_child_is_told_that_cuda_cannot_be_used_there
  a_child_of_a_process_that_used_cuda_by_itself_is_told_too
)
skips=()
for name in "${names[@]}"; do skips+=(--skip "$name"); done
run --lib $(with "${tests[@]}") -- "${skips[@]}"
export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
run $(with faults shutdown cuda_broken cuda_failures cuda_lifecycle) -- --exact "${names[@]}"
# A forked child has its parent's memory, but not the threads whose stacks refer to it.
run $(with fork)
say "$planted planted bugs were reported"
