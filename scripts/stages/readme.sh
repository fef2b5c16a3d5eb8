#!/usr/bin/env bash
# The C and C++ examples that README.md prints, and the programs in examples/, compile without a warning and read
# right bytes.
. "$(dirname "$0")/../common.sh"
need_install
work=$build/readme
rm -rf "$work"
mkdir -p "$work"
# extract LANGUAGE: each fenced block of that language into its own file.
extract() {
  awk -v language="$1" -v directory="$work" '
    $0 == "```" language { n++; file = directory "/block" n "." language; next }
    /^```/ { file = "" }
    file != "" { print > file }' README.md
}
extract c
extract cpp
# Those of the other pages want servers that are not here: they compile.
for page in docs/*.md; do
  awk '$0 == "```cpp" { inside = 1; next } /^```/ { inside = 0 } inside' "$page" >"$work/page.cpp"
  [ -s "$work/page.cpp" ] || continue
  c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -c "$work/page.cpp" -o "$work/page.o" $(pkg-config --cflags raskio) ||
    fail "the C++ of $page does not compile"
  rm "$work/page.cpp"
done
# That of docs/files.md needs no server.
awk '$0 == "```c" { inside = 1; next } /^```/ { inside = 0 } inside' docs/files.md >"$work/write.c"
cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$work/write.c" -o "$work/write" $(pkg-config --cflags --libs raskio)
"$work/write" "$work/written" || fail "the C of docs/files.md does not write a file"
[ "$(cat "$work/written")" = "on the device" ] || fail "the C of docs/files.md writes something else than it says"
if "$work/write" "$work/no/such" 2>"$work/out"; then fail "the C of docs/files.md does not notice a missing directory"; fi
: >"$work/empty"
start_server demo.bin=33554432
crc=$(awk '$1 == "object" { print $NF }' "$server_dir/log")
passed=0
flags=(-Wall -Wextra -Wpedantic -Werror)
for source in "$work"/block*.c "$work"/block*.cpp; do
  [ -e "$source" ] || fail "README.md has no example in ${source##*.}"
  case $source in
    *.cpp) c++ -std=c++17 "${flags[@]}" "$source" -o "$source.out" $(pkg-config --cflags --libs raskio) ;;
    *) cc -std=c11 "${flags[@]}" "$source" -o "$source.out" $(pkg-config --cflags --libs raskio) ;;
  esac
  said=$("$source.out" "$url/demo.bin")
  say "${source##*/}: $said"
  # Each prints the first byte that it read: (0 * 31 + 7) mod 251.
  grep -q 'first byte 7' <<<"$said" || fail "${source##*/} of README.md printed '$said', and should print 'first byte 7'"
  if "$source.out" "$url/demo.bin?status=404" >"$work/out" 2>&1; then fail "${source##*/} of README.md does not notice a 404"; fi
  # The second in C reads ranges, which an empty file does not have.
  if [[ $source != */block2.c ]]; then
    said=$("$source.out" "$work/empty") || fail "${source##*/} of README.md fails with an empty file"
    grep -q '^0 bytes' <<<"$said" || fail "${source##*/} of README.md printed '$said' for an empty file"
  fi
  passed=$((passed + 2))
done

cmake -S examples -B "$build/examples" >/dev/null
cmake --build "$build/examples" -j "$jobs"
for program in "$build/examples/read" "$build/examples/read_cpp" "python3 examples/read_ctypes.py"; do
  $program "$url/demo.bin" "$crc" || fail "$program failed"
  if $program "$url/demo.bin" 00000000 >"$work/out" 2>&1; then fail "$program accepts a wrong checksum"; fi
  if $program "$url/demo.bin?status=404" >"$work/out" 2>&1; then fail "$program does not notice a 404"; fi
  grep -q 404 "$work/out" || fail "$program does not say what failed: $(cat "$work/out")"
  passed=$((passed + 3))
done
"$build/examples/plugin" "$prefix/lib/libraskio.so.0" "$url/demo.bin" "$crc" || fail "plugin failed"
passed=$((passed + 1))
say "$passed passed, 0 failed, 0 skipped"
