#!/usr/bin/env bash
# The drop-in for KvikIO against KvikIO's own wheels, every release in an environment of its own (build/kvikio): HTTP, S3 of
# SeaweedFS and moto, WebHDFS, every way to load it, a Dask cluster. RASKIO_KVIKIO_ALL=1 (`make test-kvikio-all`): every setting
# with every release, and KvikIO alone.
. "$(dirname "$0")/../common.sh"
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' ||
  skip "KvikIO's wheels need Python 3.11 or later with venv"
[ "$(uname -m)" = x86_64 ] || skip "the wheels that these tests name are those of x86-64"
need_install
[ -e "$prefix/lib/libraskio_kvikio.so" ] || fail "RaskIO was installed without libraskio_kvikio.so: no C++ compiler was found"
environment kvikio
bash scripts/check_kvikio_library.sh "$prefix/lib/libraskio_kvikio.so"
install_simcuda
rm -rf "$build/wheels"
RASKIO_PREFIX=$prefix python3 kvikio/python/build_wheel.py "$build/wheels"
python3 kvikio/tests/run.py "$build"/wheels/raskio_kvikio-*.whl "$prefix" "$simcuda/whole" ${RASKIO_KVIKIO_ALL:+--all}
