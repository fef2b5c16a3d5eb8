#!/usr/bin/env bash
# What the installed library exports, needs and contains.
. "$(dirname "$0")/../common.sh"
need_install
bash scripts/check_library.sh "$prefix/lib/libraskio.so"
# The check finds what it looks for: each of these libraries has one fault.
bash scripts/check_library_finds_faults.sh
