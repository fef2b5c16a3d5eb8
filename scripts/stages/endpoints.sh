#!/usr/bin/env bash
# S3, TLS and proxies against programs that others wrote: SeaweedFS and rclone (both check signatures), botocore's signer,
# nginx with TLS and client certificates, tinyproxy.
. "$(dirname "$0")/../common.sh"
have python3 || skip "python3 is not installed"
need_install
venv=$build/venv-endpoints
environment endpoints
export RASKIO_LIBRARY=$prefix/lib/libraskio.so.0 PATH=$venv/bin:$PATH:/usr/sbin REQUIRE_SERVERS=1 PYTHONDONTWRITEBYTECODE=1
# What this machine has of these settings is not what is tested.
for name in $(compgen -e | grep -iE '^(AWS_|KVIKIO_|(https?|all|no)_proxy$|CURL_CA_BUNDLE$|SSL_CERT_)' || true); do unset "$name"; done
export HOME=$build/none AWS_EC2_METADATA_DISABLED=true
cd tests_endpoints
status=0
"$venv/bin/python" -m unittest -v 2>&1 | tee "$build/endpoints.log" || status=$?
ran=$(sed -n 's/^Ran \([0-9]*\) tests* .*/\1/p' "$build/endpoints.log")
skipped=$(sed -n 's/.*skipped=\([0-9]*\).*/\1/p' "$build/endpoints.log")
[ "$status" -eq 0 ] || fail "the tests in tests_endpoints/ failed"
say "$((ran - ${skipped:-0})) passed, 0 failed, ${skipped:-0} skipped"
