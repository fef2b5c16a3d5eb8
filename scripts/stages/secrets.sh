#!/usr/bin/env bash
# Runs the tests that use secrets with everything logged, libcurl's own words included, and looks for the secrets in all that
# they print. Each secret of those tests holds "s3cr3t".
. "$(dirname "$0")/../common.sh"
need_rust
log=$build/secrets.log
tests=(conformance endpoint_credentials endpoint_http endpoint_open endpoint_s3 endpoint_webhdfs error_replies redirects retry)
if ! RASKIO_TEST_VERBOSE=1 RUST_LOG=trace "$CARGO" test --locked --no-fail-fast "${tests[@]/#/--test=}" -- --nocapture >"$log" 2>&1; then
  grep -E '^test .*FAILED|panicked at' "$log" || tail -n 20 "$log"
  fail "the tests failed with everything logged; see $log"
fi
# base64 of it at each of its three places, and numbers as Debug writes bytes; signatures, which tests do not know beforehand.
marks='s3cr3t|czNjcjN0|MzY3Izd|M2NyM3[QR]|115, 51, 99, 114|signature=[0-9a-f]{16}|credential=[a-z0-9]+/20'
marks_found() { grep -ianE "$marks" "$1"; }
if marks_found "$log"; then fail "secrets are in what the tests printed; see $log"; fi
# It was as talkative as it gets, and the search finds what it looks for.
for words in 'Authorization: ...' 'x-amz-security-token: ...' 'Proxy-Authorization: ...' 'GET /' 'WARN' 'delegation=...'; do
  grep -qF "$words" "$log" || fail "nothing of \"$words\" is in the log: was everything logged?"
done
planted=$(mktemp)
trap 'rm -f "$planted"' EXIT
for line in 'Bearer S3CR3T' 'Basic dXNlcjpzM2NyM3QtcGFzcw==' '[115, 51, 99, 114, 51, 116]' 'Signature=0123456789abcdef'; do
  echo "$line" >"$planted"
  marks_found "$planted" >/dev/null || fail "the search does not find $line"
done
say "$(awk '/^test result: ok/ { n += $4 } END { print n + 0 }' "$log") passed, 0 failed, 0 skipped"
