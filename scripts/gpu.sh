#!/usr/bin/env bash
# Device reads on a machine with an NVIDIA GPU.
#   scripts/gpu.sh bundle         gathers into build/gpu what the other machine lacks: the library, the test programs, the
#                                 loopback servers, KvikIO's wheels and ours. Needs cargo, nginx and a package index.
#   scripts/gpu.sh run [PART…]    runs there, from the checkout with build/gpu in it: facts tests sanitizer events bench
#                                 files kvikio soak (default: all but soak, about 10 minutes). Needs gcc and Python 3; NumPy and CuPy for KvikIO.
# Results go to $OUT, or build/gpu-result: gpu.md and gpu.json, bench.*, facts.real, tests.log.
# RASKIO_BENCH_DIR (build): where the part files makes its file of 1 GiB, which it removes.
# GPU_ROUNDS (1): rounds of the bench. GPU_SCALE (1): how much of the 4 GiB it reads. GPU_SOAK_BYTES (64 GiB): what the soak reads.
. "$(dirname "$0")/common.sh"
bundle=$build/gpu

# The device tests, as programs.txt names them.
device_programs() { awk '$2 == "cuda" || $3 == "cuda" { print $1 }' tests_c/programs.txt; }

bundle_nginx() {
  local nginx library
  nginx=$(PATH=$PATH:/usr/sbin command -v nginx) || fail "nginx is not installed (Debian: nginx-light)"
  mkdir -p "$bundle/nginx/lib"
  cp "$(readlink -f "$nginx")" "$bundle/nginx/nginx.bin"
  # Its libraries but those of the C library, which must be the other machine's.
  ldd "$nginx" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | grep -vE '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so' |
    while read -r library; do cp "$library" "$bundle/nginx/lib/"; done
  # exec, so that the process that is started is nginx and can be stopped.
  printf '%s\n' '#!/bin/sh' 'here=$(cd "$(dirname "$0")" && pwd -P)' \
    'LD_LIBRARY_PATH=$here/lib exec "$here/nginx.bin" "$@"' >"$bundle/nginx/nginx"
  chmod +x "$bundle/nginx/nginx"
}

bundle_wheels() {
  local platforms=() version
  for version in 2_28 2_27 2_24 2_17; do platforms+=(--platform "manylinux_${version}_x86_64"); done
  mkdir -p "$bundle/wheels"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
    --implementation cp "${platforms[@]}" -d "$bundle/wheels" \
    kvikio-cu13==26.10.0 libkvikio-cu13==26.10.0 rapids-logger==0.3.0 ||
    say "KvikIO's wheels cannot be had here: the bench will be without it"
  if [ -e "$prefix/lib/libraskio_kvikio.so" ]; then
    RASKIO_PREFIX=$bundle/prefix python3 kvikio/python/build_wheel.py "$bundle/wheels"
  fi
}

make_bundle() {
  need_rust
  install_library
  install_simcuda
  sh scripts/cargo.sh build --quiet --release --locked -p raskio-testserver
  rm -rf "$bundle"
  mkdir -p "$bundle/tests" "$bundle/bin"
  cp -a "$prefix" "$bundle/prefix"
  find "$bundle/prefix/lib" -name 'libraskio.so*' -type f -exec strip --strip-unneeded {} +
  cp "$target/release/raskio-testserver" "$bundle/bin/"

  # Without simulated drivers: they run over the machine's own.
  cmake -S tests_c -B "$build/tests_gpu" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
  local name targets=()
  for name in $(device_programs); do targets+=("${name}_c"); done
  cmake --build "$build/tests_gpu" -j "$jobs" --target "${targets[@]}" >/dev/null
  for name in "${targets[@]}"; do cp "$build/tests_gpu/$name" "$bundle/tests/"; done
  cc -std=c11 -O1 -I"$prefix/include" -o "$bundle/bin/facts" simcuda/facts.c -L"$prefix/lib" -lraskio -ldl -pthread
  LD_LIBRARY_PATH=$simcuda/whole:$prefix/lib RASKIO_TEST_URL=http://127.0.0.1:1 "$bundle/bin/facts" >"$bundle/facts.simulated"
  cc -O2 -o "$bundle/bin/cuda_driver" benches/cuda_driver.c -ldl -pthread
  cc -O2 -std=c11 -D_GNU_SOURCE -I"$prefix/include" -o "$bundle/bin/raskio_files" benches/raskio_files.c -L"$prefix/lib" -lraskio -ldl -pthread
  bundle_event_pool
  strip "$bundle"/bin/raskio-testserver "$bundle"/tests/*
  bundle_nginx
  bundle_wheels
  # Last: without it the bundle is not whole.
  git rev-parse --short HEAD >"$bundle/commit" 2>/dev/null || echo unknown >"$bundle/commit"
  say "build/gpu: $(du -sm "$bundle" | cut -f1) MiB"
}

# The pool is no part of the C API: its benchmark is a Rust program.
bundle_event_pool() {
  local built
  built=$(sh scripts/cargo.sh build --release --locked --bench event_pool --message-format short 2>&1) || {
    printf '%s\n' "$built" >&2
    fail "the event pool's benchmark does not build"
  }
  built=$(sh scripts/cargo.sh build --release --locked --bench event_pool --message-format json 2>/dev/null |
    sed -n 's/.*"name":"event_pool".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
  cp "$built" "$bundle/bin/event_pool"
  strip "$bundle/bin/event_pool"
}

# ---- on the machine with the GPU ----

# line JSON: one more for gpu.json.
line() { printf '%s\n' "$1" >>"$out/lines.jsonl"; }
broken=0

# attempt PART NAME LIMIT COMMAND…: runs one program; 77 is a skip.
attempt() {
  local part=$1 name=$2 limit=$3 status=0 result began took
  shift 3
  began=$(date +%s.%N)
  printf '==== %s %s\n' "$part" "$name" >>"$out/tests.log"
  timeout --kill-after=5 "$limit" "$@" >"$out/one.log" 2>&1 || status=$?
  cat "$out/one.log" >>"$out/tests.log"
  took=$(awk -v b="$began" -v e="$(date +%s.%N)" 'BEGIN { printf "%.1f", e - b }')
  case $status in
    0) result=ok ;;
    77) result=skipped ;;
    *)
      result="FAILED ($status)"
      broken=$((broken + 1))
      ;;
  esac
  printf '%-10s %-32s %-14s %6s s\n' "$part" "$name" "$result" "$took"
  [ "$status" -eq 0 ] || head -n 12 "$out/one.log" | sed 's/^/    /'
  line "{\"what\": \"$part\", \"name\": \"$name\", \"result\": \"$result\", \"seconds\": $took}"
}

run_facts() {
  RASKIO_TEST_URL=http://127.0.0.1:1 timeout 60 "$bundle/bin/facts" >"$out/facts.real" 2>&1 || say "facts: exit status $?"
  say "facts: < simulated driver, > this one"
  if diff "$bundle/facts.simulated" "$out/facts.real"; then say "facts: no difference"; fi
}

with_server() {
  export RASKIO_TESTSERVER=$bundle/bin/raskio-testserver
  start_server small=100 empty=0 medium=1048576 large=67108864 huge=1073741824
  export RASKIO_TEST_URL=$url
}

run_tests() {
  local name
  with_server
  for name in $(device_programs); do attempt tests "$name" 120 "$bundle/tests/${name}_c"; done
  stop_server
}

run_sanitizer() {
  local name sanitizer
  sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) || {
    say "sanitizer: no compute-sanitizer here"
    return 0
  }
  with_server
  # Programs that make no calls fail on purpose: the sanitizer reports each call that does.
  for name in cuda_read cuda_memory_kinds cuda_two_buffers cuda_resume cuda_cancel_and_shut_down; do
    attempt sanitizer "$name" 60 "$sanitizer" --tool memcheck --error-exitcode 99 "$bundle/tests/${name}_c"
  done
  stop_server
}

run_events() {
  local threads size how
  figures() { timeout 60 "$@" | tee -a "$out/lines.jsonl" || { broken=$((broken + 1)); say "FAILED: $*"; }; }
  for threads in 1 16; do
    figures "$bundle/bin/cuda_driver" events "$threads"
    figures "$bundle/bin/event_pool" "$threads"
  done
  for size in 4096 65536 1048576 4194304; do
    for how in event host; do
      figures "$bundle/bin/cuda_driver" recycle "$how" "$size" 16 $((size * 4000))
    done
  done
}

# install_wheels FOLDER: KvikIO's and ours, as the bundle has them.
install_wheels() {
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-index --no-deps --no-compile \
    --target "$1" "$bundle"/wheels/*.whl
}

run_bench() {
  local clients=raskio site
  site=$(mktemp -d)
  if compgen -G "$bundle/wheels/*.whl" >/dev/null; then
    install_wheels "$site" && clients=kvikio,raskio
  fi
  speeds() {
    PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} python3 benches/run.py --profile h200 --rounds "${GPU_ROUNDS:-1}" --reps 2 \
      --scale "${GPU_SCALE:-1}" --idle-seconds 0 --no-plots --prefix "$bundle/prefix" --nginx "$bundle/nginx/nginx" \
      --kvikio-python "$(command -v python3)" "$@" || broken=$((broken + 1))
  }
  speeds --cases large,device --clients "$clients" --output "$out/bench"
  rm -rf "$site"
}

# Files into GPU memory and out of it; within a minute.
run_files() {
  local site arguments=()
  site=$(mktemp -d)
  if compgen -G "$bundle/wheels/*kvikio_cu*.whl" >/dev/null; then
    install_wheels "$site" && arguments=(--kvikio "$(command -v python3)")
  fi
  PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} timeout --kill-after=5 90 python3 benches/files_device.py --bin "$bundle/bin" \
    --folder "${RASKIO_BENCH_DIR:-$build}" --limit 45 "${arguments[@]}" | tee -a "$out/lines.jsonl" || broken=$((broken + 1))
  rm -rf "$site"
}

# The drop-in: its device tests beside KvikIO alone, and how fast the same program is with and without it.
run_kvikio() {
  local site server_log
  compgen -G "$bundle/wheels/*kvikio_cu*.whl" >/dev/null && compgen -G "$bundle/wheels/raskio_kvikio-*.whl" >/dev/null || {
    say "kvikio: the bundle lacks KvikIO's wheels or ours"
    return 0
  }
  site=$(mktemp -d)
  install_wheels "$site"
  server_log=$site/server.log
  python3 kvikio/tests/scripted_server.py < <(exec sleep 900 2>/dev/null) >"$server_log" &
  local server=$!
  while [ ! -s "$server_log" ] && kill -0 "$server"; do sleep 0.1; done
  export SERVER PYTHONPATH=$site:$root/kvikio/tests${PYTHONPATH:+:$PYTHONPATH}
  SERVER=$(cat "$server_log")
  attempt kvikio device 120 python3 -m unittest -v test_device
  attempt kvikio device-multi-poll 120 env KVIKIO_REMOTE_IO_BACKEND=MULTI_POLL KVIKIO_REMOTE_IO_NUM_REACTORS=4 \
    python3 -m unittest -v test_device
  attempt kvikio device-kvikio-alone 120 env NATIVE=1 KVIKIO_REMOTE_IO_BACKEND=MULTI_POLL python3 -m unittest -v test_device
  # The notices of retries are warnings.
  attempt kvikio reads 120 env KVIKIO_LOG_LEVEL=WARN python3 -m unittest test_reads
  kill "$server"
  wait "$server" 2>/dev/null || true
  python3 benches/kvikio_dropin.py --cases device --rounds 3 --python "$(command -v python3)" --nginx "$bundle/nginx/nginx" \
    --output "$out/kvikio_dropin" || broken=$((broken + 1))
  rm -rf "$site"
}

run_soak() {
  with_server
  # Half with each backend.
  RASKIO_SOAK_BYTES=$((${GPU_SOAK_BYTES:-68719476736} / 2)) attempt soak cuda_soak 500 "$bundle/tests/cuda_soak_c"
  cat "$out/one.log"
  stop_server
}

run_parts() {
  local part parts=("$@")
  [ $# -gt 0 ] || parts=(facts tests sanitizer events bench files kvikio)
  for part in "${parts[@]}"; do
    declare -F "run_$part" >/dev/null || fail "there is no part '$part'; there are: facts tests sanitizer events bench files kvikio soak"
  done
  if [ ! -e "$bundle/commit" ]; then
    say "build/gpu is not there, or not whole: gathering it"
    make_bundle
  fi
  # The repository may be another one, or none, on that machine.
  export RASKIO_BENCH_COMMIT
  RASKIO_BENCH_COMMIT=$(cat "$bundle/commit")
  out=${OUT:-$build/gpu-result}
  mkdir -p "$out"
  rm -f "$out/lines.jsonl" "$out/tests.log"
  touch "$out/lines.jsonl"
  export LD_LIBRARY_PATH=$bundle/prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  { nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || say "nvidia-smi does not answer"; } |
    tee "$out/gpu.txt"
  local began=$SECONDS before
  for part in "${parts[@]}"; do
    before=$SECONDS
    say "---- $part"
    "run_$part"
    say "---- $part: $((SECONDS - before)) s"
  done
  python3 benches/gpu_report.py "$out"
  rm -f "$out/one.log" "$out/lines.jsonl" "$out/gpu.txt"
  say "all: $((SECONDS - began)) s; $broken failed; results in $out"
  [ "$broken" -eq 0 ]
}

case ${1:-} in
  bundle) make_bundle ;;
  run)
    shift
    run_parts "$@"
    ;;
  *) fail "usage: scripts/gpu.sh bundle, or scripts/gpu.sh run [facts|tests|sanitizer|events|bench|files|kvikio|soak…]" ;;
esac
