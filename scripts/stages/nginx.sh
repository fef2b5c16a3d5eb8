#!/usr/bin/env bash
# A real web server and a real file: whole reads over both backends, compared by checksum.
. "$(dirname "$0")/../common.sh"
PATH=$PATH:/usr/sbin
have nginx || skip "nginx is not installed"
need_install
cmake -S examples -B "$build/examples" >/dev/null
cmake --build "$build/examples" -j "$jobs" --target read read_batch

work=$(mktemp -d)
nginx_pid=
trap '[ -z "$nginx_pid" ] || kill "$nginx_pid"; rm -rf "$work"' EXIT
# 100 MiB and a bit that is no multiple of anything, incompressible; one byte; and nothing.
mkdir "$work/www"
head -c 104857723 /dev/urandom >"$work/www/large.bin"
head -c 1 /dev/urandom >"$work/www/byte.bin"
: >"$work/www/empty.bin"
chmod -R a+rX "$work"
crc32() { python3 -c '
import sys, zlib
crc = 0
with open(sys.argv[1], "rb") as file:
    while block := file.read(1 << 20):
        crc = zlib.crc32(block, crc)
print("%08x" % crc)' "$1"; }

for attempt in 1 2 3 4 5; do
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  cat >"$work/nginx.conf" <<CONF
daemon off;
pid $work/nginx.pid;
error_log $work/error.log;
worker_processes 1;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3; uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
  server {
    listen 127.0.0.1:$port backlog=4096;
    root $work/www;
    location = /moved.bin { return 302 /large.bin; }
  }
}
CONF
  nginx -p "$work" -e "$work/error.log" -c "$work/nginx.conf" &
  nginx_pid=$!
  for _ in $(seq 50); do
    if python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null; then break 2; fi
    kill -0 "$nginx_pid" 2>/dev/null || break
    sleep 0.1
  done
  # Somebody else took the port in between: another one.
  kill "$nginx_pid" 2>/dev/null || true
  nginx_pid=
done
[ -n "$nginx_pid" ] || fail "nginx did not start: $(cat "$work/error.log")"

passed=0
for backend in MULTI_POLL EASY_THREADPOOL; do
  for file in large byte empty moved; do
    source=$work/www/$file.bin
    [ "$file" != moved ] || source=$work/www/large.bin
    say "$backend $file.bin"
    KVIKIO_REMOTE_IO_BACKEND=$backend "$build/examples/read" "http://127.0.0.1:$port/$file.bin" "$(crc32 "$source")"
    passed=$((passed + 1))
  done
  # Ranges out of order, near each other, far away, twice, and the end: each with the checksum of its bytes.
  ranges=(50000000:3000000 0:1000 1500:500 1000:1 0:1000 104857722:1 -70000)
  for gap in default 1 never; do
    say "$backend ranges, gap $gap"
    KVIKIO_REMOTE_IO_BACKEND=$backend RASKIO_BATCH_GAP=${gap/default/0} \
      "$build/examples/read_batch" "http://127.0.0.1:$port/large.bin" "${ranges[@]}" >"$work/out"
    python3 - "$work/www/large.bin" "${ranges[@]}" >"$work/expected" <<'RANGES'
import sys, zlib
whole = open(sys.argv[1], "rb").read()
for text in sys.argv[2:]:
    offset, size = (len(whole) - int(text[1:]), int(text[1:])) if text[0] == "-" else map(int, text.split(":"))
    print(f"{offset}+{size}  crc32 {zlib.crc32(whole[offset:offset + size]):08x}")
RANGES
    cmp <(head -n -1 "$work/out") "$work/expected" || fail "wrong ranges: $(cat "$work/out")"
    passed=$((passed + 1))
  done
  if KVIKIO_REMOTE_IO_BACKEND=$backend "$build/examples/read" "http://127.0.0.1:$port/none.bin" 2>"$work/out"; then
    fail "a missing file was read"
  fi
  grep -q 404 "$work/out" || fail "the error does not name the status 404: $(cat "$work/out")"
  passed=$((passed + 1))
done
say "$passed passed, 0 failed, 0 skipped"
