#!/usr/bin/env bash
# Checks a built libraskio.so: scripts/check_library.sh FILE [ALLOWED_NEEDED…]
# Prints every fault, and exits 1 if there is one. ALLOWED_NEEDED names further libraries that it may need.
. "$(dirname "$0")/common.sh"
library=${1:?usage: check_library.sh FILE [ALLOWED_NEEDED…]}
shift
faults=0
fault() {
  printf 'fault: %s\n' "$*"
  faults=$((faults + 1))
}
major=$(sed -n 's/^version *= *"\([0-9]*\)\..*/\1/p' "$root/Cargo.toml" | head -n 1)
dynamic=$(readelf -dW "$library")

soname=$(sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p' <<<"$dynamic")
[ "$soname" = "libraskio.so.$major" ] || fault "the SONAME is '$soname', and should be 'libraskio.so.$major'"
grep -q 'FLAGS_1.*NODELETE' <<<"$dynamic" || fault "the flag NODELETE is missing: dlclose would unmap code that threads still run"
grep -q 'FLAGS_1.*NOW' <<<"$dynamic" || fault "symbols are bound lazily: the flag NOW is missing"
! grep -qE 'TEXTREL' <<<"$dynamic" || fault "it has text relocations"
! grep -qE '\((RPATH|RUNPATH)\)' <<<"$dynamic" || fault "it has a run path"

while read -r needed; do
  case " libc.so.6 libm.so.6 libgcc_s.so.1 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 libpthread.so.0 libdl.so.2 $* " in
    *" $needed "*) ;;
    *) fault "it needs $needed, which the machine it runs on may not have" ;;
  esac
done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")

segments=$(readelf -lW "$library")
grep -q 'GNU_STACK.* RW ' <<<"$segments" || fault "its stack would be executable"
grep -q 'GNU_RELRO' <<<"$segments" || fault "its relocated data stays writable (no RELRO)"

symbols=$(nm -D --defined-only "$library" | awk '{print $3}' | sed 's/@.*//')
foreign=$(grep -v '^raskio_[a-z0-9_]*$' <<<"$symbols" || true)
[ -z "$foreign" ] || fault "it exports $(wc -l <<<"$foreign") symbols other than raskio_*: $(head -n 5 <<<"$foreign" | tr '\n' ' ')"
# A function that the header promises, and the library has not.
if [ -s "$root/include/raskio.h" ]; then
  promised=$(grep -oE '\braskio_[a-z0-9_]+\(' "$root/include/raskio.h" | tr -d '(' | sort -u)
  declared=$(grep -E 'RASKIO_EXPORT' "$root/include/raskio.h" | grep -oE '\braskio_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u)
  for name in ${declared:-$promised}; do
    grep -qx "$name" <<<"$symbols" || fault "the header declares $name, and the library does not export it"
  done
fi

# -a: all sections, debug information too.
contents=$(strings -a "$library")
for directory in "$root" "${HOME:-}" "${CARGO_HOME:-$HOME/.cargo}" "$target" "$build"; do
  [ -n "$directory" ] && [ "$directory" != / ] || continue
  found=$(grep -F -m 3 -- "$directory/" <<<"$contents" || true)
  [ -z "$found" ] || fault "it names the directory $directory of the machine that built it: $(tr '\n' ' ' <<<"$found")"
done

[ "$faults" -eq 0 ] || fail "$library has $faults faults"
say "$library: $(wc -l <<<"$symbols") exported symbols, $(stat -Lc %s "$library") bytes, no fault"
