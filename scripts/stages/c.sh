#!/usr/bin/env bash
# The C and C++ tests, against the installed package.
. "$(dirname "$0")/../common.sh"
need_install
install_simcuda
cmake -S tests_c -B "$build/tests_c" -DCMAKE_BUILD_TYPE=Debug -DRASKIO_SIMCUDA="$simcuda"
cmake --build "$build/tests_c" -j "$jobs"
bash scripts/run_c_tests.sh "$build/tests_c"
