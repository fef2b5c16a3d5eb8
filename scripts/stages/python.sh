#!/usr/bin/env bash
# Python over ctypes (tests_c/*.py: a forking worker, as data loaders have), and the benchmarks' own tests.
. "$(dirname "$0")/../common.sh"
have python3 || skip "python3 is not installed"
need_install
start_server small=100 medium=1048576 large=67108864
export RASKIO_TEST_URL=$url RASKIO_LIBRARY=$prefix/lib/libraskio.so.0
passed=0
for test in tests_c/*.py; do
  [ -e "$test" ] || fail "there is no Python test in tests_c/"
  say "$test"
  timeout 120 python3 "$test" || fail "$test failed"
  passed=$((passed + 1))
done
python3 -m unittest discover -s benches -t benches
passed=$((passed + 1))
say "$passed passed, 0 failed, 0 skipped"
