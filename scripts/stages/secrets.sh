#!/usr/bin/env bash
# Looks for secrets in all that the tests said with everything logged, libcurl's own words included (build/rust.log), and in
# what the other stages of this run printed. Each secret of the tests holds "s3cr3t".
. "$(dirname "$0")/../common.sh"
log=$build/rust.log
[ -s "$log" ] || bash scripts/stages/rust.sh
# base64 of it at each of its three places, and numbers as Debug writes bytes; signatures, which tests do not know beforehand.
marks='s3cr3t|czNjcjN0|MzY3Izd|M2NyM3[QR]|115, 51, 99, 114|signature=[0-9a-f]{16}|credential=[a-z0-9]+/20'
marks_found() { grep -ianE "$marks" "$1"; }
passed=0
for file in "$log" "$build"/logs/*.log; do
  if [ -s "$file" ] && marks_found "$file" | cut -c 1-300 | head -n 20 | grep .; then fail "secrets are in what the tests printed; see $file"; fi
  passed=$((passed + 1))
done
# They were as talkative as it gets, and the search finds what it looks for.
for words in 'Authorization: ...' 'x-amz-security-token: ...' 'Proxy-Authorization: ...' 'GET /' 'WARN' 'delegation=...'; do
  grep -aqF "$words" "$log" || fail "nothing of \"$words\" is in the log: was everything logged?"
done
planted=$(mktemp)
trap 'rm -f "$planted"' EXIT
for line in 'Bearer S3CR3T' 'Basic dXNlcjpzM2NyM3QtcGFzcw==' '[115, 51, 99, 114, 51, 116]' 'Signature=0123456789abcdef'; do
  echo "$line" >"$planted"
  marks_found "$planted" >/dev/null || fail "the search does not find $line"
  passed=$((passed + 1))
done
say "$passed passed, 0 failed, 0 skipped"
