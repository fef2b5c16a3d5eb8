#!/bin/sh
# cargo, such that no directory of this machine gets into what it builds: rustc writes source paths into panic messages
# and line tables. Used for everything that is installed. CARGO and RUSTC name another toolchain.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd -P)
cargo_home=${CARGO_HOME:-${HOME:?HOME or CARGO_HOME must be set}/.cargo}
separator=$(printf '\037')
flags=

add() { flags="$flags${flags:+$separator}$1"; }
# The last match wins, so the general ones come first.
map() { if [ -n "$1" ] && [ "$1" != / ]; then add "--remap-path-prefix=$1=$2"; fi; }

for flag in ${RUSTFLAGS:-}; do add "$flag"; done
map "$("${RUSTC:-rustc}" --print sysroot)" /rust
map "$cargo_home" /cargo
map "$cargo_home/registry/src" /cargo
map "$root" /raskio
map "${CARGO_TARGET_DIR:-$root/target}" /target
unset RUSTFLAGS
CARGO_ENCODED_RUSTFLAGS=$flags
export CARGO_ENCODED_RUSTFLAGS
cd "$root"
exec "${CARGO:-cargo}" "$@"
