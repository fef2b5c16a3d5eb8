#!/usr/bin/env bash
# include/raskio.h is what the Rust sources say (RASKIO_BLESS=1 writes it).
. "$(dirname "$0")/../common.sh"
need_rust
spare_openssl
"$CARGO" test --locked --test header
