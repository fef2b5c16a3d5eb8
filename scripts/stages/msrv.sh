#!/usr/bin/env bash
# Everything compiles with the oldest supported Rust. `make check-msrv` also runs the tests with it.
. "$(dirname "$0")/../common.sh"
exec bash scripts/check_msrv.sh check
