#!/usr/bin/env bash
# Proves check_library.sh: it must reject small libraries that have one fault each, and accept one without.
. "$(dirname "$0")/common.sh"
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
major=$(sed -n 's/^version *= *"\([0-9]*\)\..*/\1/p' Cargo.toml | head -n 1)
# Every function of the header, so that each library has no fault but the planted one.
grep -E 'RASKIO_EXPORT' include/raskio.h | grep -oE '\braskio_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u |
  sed 's/.*/void &(void) {}/' >"$directory/good.c"
good=(-shared -fPIC -Wl,-soname,libraskio.so."$major" -Wl,-z,nodelete,-z,relro,-z,now)

# planted NAME TEXT COMPILER_ARGUMENTS…: the check must fail and say TEXT.
planted() {
  local name=$1 text=$2
  shift 2
  cc -o "$directory/$name.so" "$@"
  if bash scripts/check_library.sh "$directory/$name.so" >"$directory/out" 2>&1; then
    fail "check_library.sh passed a library with a planted fault: $name"
  fi
  grep -q "^fault: .*$text" "$directory/out" || fail "check_library.sh rejected $name without saying '$text': $(cat "$directory/out")"
}
cc -o "$directory/good.so" "${good[@]}" "$directory/good.c"
bash scripts/check_library.sh "$directory/good.so" >/dev/null || fail "check_library.sh rejects a library without a fault"

planted soname SONAME "${good[@]}" -Wl,-soname,libother.so.0 "$directory/good.c"
planted nodelete NODELETE -shared -fPIC -Wl,-soname,libraskio.so."$major" -Wl,-z,relro,-z,now "$directory/good.c"
planted stack executable "${good[@]}" -Wl,-z,execstack "$directory/good.c"
planted runpath 'run path' "${good[@]}" -Wl,-rpath,/opt/x "$directory/good.c"
{ cat "$directory/good.c"; echo 'void curl_easy_init(void) {}'; } >"$directory/exports.c"
planted exports curl_easy_init "${good[@]}" "$directory/exports.c"
{ cat "$directory/good.c"; echo "const char *where = \"$root/src/lib.rs\";"; } >"$directory/path.c"
planted path "names the directory" "${good[@]}" -fvisibility=default "$directory/path.c"
{ cat "$directory/good.c"; echo '#include <resolv.h>
static int use(void) { return res_init(); } void *raskio_x = (void *)use;'; } >"$directory/needed.c"
planted needed "needs libresolv" "${good[@]}" "$directory/needed.c" -Wl,--no-as-needed -lresolv
tail -n +2 "$directory/good.c" >"$directory/missing.c"
planted missing "does not export it" "${good[@]}" "$directory/missing.c"
say "check_library.sh finds 8 planted faults"
