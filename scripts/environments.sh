#!/usr/bin/env bash
# Makes the Python environments of these stages (endpoints, kvikio), if they are not there: scripts/environments.sh STAGE…
# Exit status 77, and a line why, if the package index cannot be reached. Whoever comes meanwhile waits: `make test` begins with
# it while the first stages compile.
. "$(dirname "$0")/common.sh"
have python3 || skip "python3 is not installed"
if have flock; then
  exec {lock}>"$build/environments.lock"
  flock "$lock"
fi
endpoints() {
  local venv=$build/venv-endpoints
  if cmp -s tests_endpoints/requirements.txt "$venv/installed"; then return; fi
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r tests_endpoints/requirements.txt ||
    skip "pip could not install tests_endpoints/requirements.txt"
  cp tests_endpoints/requirements.txt "$venv/installed"
}
kvikio() {
  python3 kvikio/tests/environments.py ${RASKIO_KVIKIO_ALL:+--all} || {
    [ $? -eq 77 ] || fail "the environments could not be made"
    skip "the wheels of KvikIO could not be had: the package index cannot be reached"
  }
}
for stage in "$@"; do "$stage"; done
