#!/usr/bin/env bash
# ThreadSanitizer over everything that threads share (tests/races.rs): operation, limiter, inbox and waker, names,
# callbacks, counters, and whole reads over both backends, into host and device memory.
#
# RaskIO's Rust code is instrumented. std is not, as it comes compiled: src/sync/watched.rs has locks that are seen all the same,
# and tests/races.supp names what is left, with the reason. libcurl and OpenSSL are not: what happens inside them is not
# checked, only that their threads and RaskIO's agree through pthread's locks.
. "$(dirname "$0")/../sanitizer.sh"
need_runtime tsan
start_server medium=1M
export RASKIO_TEST_URL=$url
# The simulated driver is a library that the tests load, and an instrumented one does not load.
sh scripts/cargo.sh build --quiet --locked -p raskio-simcuda
export RASKIO_SIMCUDA=$target/debug/libsimcuda.so
reuse_libraries
instrument tsan -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg 'raskio_sanitizer="thread"'
# A frame is where it is and no more: the reports of a failure are to be read at the end of a log.
export TSAN_OPTIONS="suppressions=$root/tests/races.supp allow_addr2line=1 history_size=4 stack_trace_format='    #%n %f %S'"
cargo_sanitized test --features fault-injection --test planted --test races --no-run

must_report data_race 'ThreadSanitizer: data race'
must_report race_with_a_read 'ThreadSanitizer: data race'
grep -q 'raskio::sys::mem::HostBuffer' "$build/planted-race_with_a_read.log" ||
  fail "the report of race_with_a_read does not name the library's code: it is not instrumented"
reports=$build/tsan-reports
rm -f "$reports".*
if ! TSAN_OPTIONS="$TSAN_OPTIONS log_path=$reports" cargo_sanitized test --features fault-injection --test races -- --test-threads=1; then
  # What the report is about, without the frames of the compiler's own library.
  cat "$reports".* 2>/dev/null | grep -v -e " /rustc/" -e "^  Thread T" | cut -c 1-200 | head -n 90 || true
  fail "whole in build/${reports##*/}.*"
fi
say "$planted planted bugs were reported"
