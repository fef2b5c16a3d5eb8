#!/usr/bin/env bash
# Runs the tests of a tests_c build directory beside a loopback server: scripts/run_c_tests.sh DIRECTORY [CTEST_ARGUMENTS…]
. "$(dirname "$0")/common.sh"
directory=${1:?usage: run_c_tests.sh DIRECTORY [CTEST_ARGUMENTS…]}
shift
need_install
start_server small=100 empty=0 medium=1048576 large=67108864 huge=1073741824
export RASKIO_TEST_URL=$url RASKIO_LIBRARY=$prefix/lib/libraskio.so
ctest --test-dir "$directory" --output-on-failure --no-tests=error -j "$jobs" "$@"
