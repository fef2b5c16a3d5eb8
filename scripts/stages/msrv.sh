#!/usr/bin/env bash
# What users build compiles with the oldest supported Rust. `make check-msrv` builds and runs the tests with it, too.
. "$(dirname "$0")/../common.sh"
exec bash scripts/check_msrv.sh check
