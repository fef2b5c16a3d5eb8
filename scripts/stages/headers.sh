#!/usr/bin/env bash
# The installed headers compile alone and included twice, as C11 and as C++17, without a warning.
. "$(dirname "$0")/../common.sh"
need_install
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only)
count=0
# try HEADER LANGUAGE STANDARD COMPILER
try() {
  local file=$directory/$2-$3
  printf '#include <%s>\n' "$1" >"$file-once"
  printf '#include <%s>\n#include <%s>\n' "$1" "$1" >"$file-twice"
  for source in "$file-once" "$file-twice"; do
    "$4" -x "$2" -std="$3" "${warnings[@]}" -I"$prefix/include" "$source"
    count=$((count + 1))
  done
}
for pair in "cc c++" "clang clang++"; do
  read -r c cxx <<<"$pair"
  have "$c" && have "$cxx" || continue
  for standard in c11 c17; do try raskio.h c "$standard" "$c"; done
  for standard in c++17 c++20; do
    try raskio.h c++ "$standard" "$cxx"
    try raskio.hpp c++ "$standard" "$cxx"
  done
  # C callers may be older than the C++ layer.
  try raskio.h c++ c++11 "$cxx"
done
say "$count passed, 0 failed, 0 skipped"
