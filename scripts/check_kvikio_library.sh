#!/usr/bin/env bash
# Checks a built libraskio_kvikio.so: what it exports, needs and contains. scripts/check_kvikio_library.sh FILE
. "$(dirname "$0")/common.sh"
library=${1:?usage: check_kvikio_library.sh FILE}
faults=0
fault() {
  printf 'fault: %s\n' "$*"
  faults=$((faults + 1))
}
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort)
# What shim.map names, and nothing else: with any other of KvikIO's functions it would stand before too much.
promised=$({
  grep -oE '_ZN6kvikio[A-Za-z0-9_]+' kvikio/shim.map
  grep -oE '^RASKIO_KVIKIO_EXPORT .*\(' kvikio/include/raskio_kvikio.h | grep -oE 'raskio_kvikio_[a-z_]+'
} | sort)
[ "$exported" = "$promised" ] || fault "it exports other names than it should: $(diff <(echo "$promised") <(echo "$exported") | grep '^[<>]' | tr '\n' ' ')"
dynamic=$(readelf -dW "$library")
grep -q 'FLAGS_1.*NODELETE' <<<"$dynamic" || fault "the flag NODELETE is missing: dlclose would unmap code that KvikIO calls"
! grep -qE '\((RPATH|RUNPATH)\)' <<<"$dynamic" || fault "it has a run path"
while read -r needed; do
  case " libc.so.6 libm.so.6 libgcc_s.so.1 libstdc++.so.6 libdl.so.2 libpthread.so.0 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 " in
    *" $needed "*) ;;
    *) fault "it needs $needed: neither KvikIO nor RaskIO is linked to it" ;;
  esac
done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
! nm -D --undefined-only "$library" | grep -E 'kvikio|raskio_|curl_|cu[A-Z]' || fault "it wants the names above from other libraries"
# Whoever catches what it throws, and KvikIO itself, have their own of these; the linker must not find one here.
! nm -D "$library" | grep -E '_ZT[VI]N6kvikio' || fault "it has a vtable or a type info of KvikIO's"
[ "$faults" -eq 0 ] || fail "$library has $faults faults"
say "$library: $(wc -l <<<"$exported") exported symbols, $(stat -Lc %s "$library") bytes, no fault"
