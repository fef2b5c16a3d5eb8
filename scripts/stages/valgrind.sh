#!/usr/bin/env bash
# The C tests under Valgrind: no invalid access, no lost memory. A planted fault proves that it is looking.
. "$(dirname "$0")/../common.sh"
have valgrind || skip "valgrind is not installed"
need_install
install_simcuda
cmake -S tests_c -B "$build/tests_valgrind" -DCMAKE_BUILD_TYPE=Debug -DRASKIO_SIMCUDA="$simcuda" -DRASKIO_VALGRIND=ON
cmake --build "$build/tests_valgrind" -j "$jobs"
bash scripts/run_c_tests.sh "$build/tests_valgrind"
