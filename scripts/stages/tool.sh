#!/usr/bin/env bash
# The command-line tool and the plugin of Nsight Systems as they are installed: completions that a shell takes, a copy that is
# killed and goes on, results in a pipe. What they do in detail is tested in cli/tests and nic/tests, by the stage `rust`.
. "$(dirname "$0")/../common.sh"
need_rust
spare_openssl
# Of the whole workspace, as the stage `rust` builds it: with the features of one package alone everything would be built anew.
"$CARGO" build --quiet --locked --workspace --bins
work=$build/tool
rm -rf "$work" "$build/cmake-tool"
# As users build and install it, but without optimising, and with the directories of this machine in it: by the flags that take
# them out cargo tells builds apart, and everything would be built anew.
printf '#!/bin/sh\nunset CARGO_ENCODED_RUSTFLAGS\nexec "%s" "$@"\n' "$CARGO" >"$build/plain-cargo"
chmod +x "$build/plain-cargo"
cmake -S cmake -B "$build/cmake-tool" -DRASKIO_CARGO="$build/plain-cargo" -DRASKIO_CARGO_TARGET_DIR="$target" -DRASKIO_KVIKIO=OFF \
  -DRASKIO_TOOL=ON -DRASKIO_TOOL_PROFILE=dev
cmake --build "$build/cmake-tool" --target raskio_tool
cmake --install "$build/cmake-tool" --prefix "$work" --component tool
# Who has the library from elsewhere gets no second one.
! find "$work" -name 'libraskio*' -o -name 'raskio.h' | grep . || fail "the component tool holds the library as well"
[ "$("$work/bin/raskio" --version)" = "raskio $(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)" ] ||
  fail "the installed tool does not say its version"
raskio=$work/bin/raskio
plugin=$work/share/raskio/nsys-plugins/raskio_nic
passed=0
ok() { passed=$((passed + 1)); }

for file in "$work/share/bash-completion/completions/raskio" "$work/share/zsh/site-functions/_raskio" "$work/share/fish/vendor_completions.d/raskio.fish"; do
  grep -q checksum "$file" || fail "$file knows no options"
done
bash -c 'source "$1" && complete -p raskio' - "$work/share/bash-completion/completions/raskio" >/dev/null ||
  fail "bash does not take its completions"
if have zsh; then zsh -n "$work/share/zsh/site-functions/_raskio"; fi
ok

# As nsys does it: the program that the manifest names, in the manifest's directory.
program=$plugin/$(sed -n 's/^ExecutablePath: //p' "$plugin/nsys-plugin.yaml")
said=$("$program" --csv -i 10000 -n 3)
[[ $said == seconds,interface,* ]] || fail "the plugin prints no CSV"
ok
# Neither links what it does not need.
! ldd "$program" | grep -qE 'curl|ssl' || fail "the plugin links a library for the network"
ok

export RASKIO_TESTSERVER=$target/debug/raskio-testserver
start_server data=60000007
crc=$(awk '$1 == "object" { print $NF }' "$server_dir/log")
# A slow copy is killed, and what it left is used.
"$raskio" cp -q --chunk-size 1MiB --memory 2MiB "$url/data?delay_ms=20" "$work/data" &
copy=$!
for _ in $(seq 200); do
  if [ -e "$work/data.raskio-journal" ] && [ "$(wc -l <"$work/data.raskio-journal")" -gt 20 ]; then break; fi
  sleep 0.05
done
kill -KILL "$copy"
wait "$copy" 2>/dev/null || true
[ ! -e "$work/data" ] || fail "a copy that was killed left a file that looks whole"
said=$("$raskio" cp --json --chunk-size 1MiB --checksum "crc32=$crc" "$url/data?delay_ms=20" "$work/data" | python3 -c '
import json, sys
summary = json.load(sys.stdin)
print(summary["resumed_bytes"] > 0, summary["crc32"])')
[ "$said" = "True $crc" ] || fail "a copy that was killed did not go on: $said, and should be True $crc"
sum=$(sha256sum "$work/data" | cut -d ' ' -f 1)
"$raskio" cp -q --checksum "sha256=$sum" "$url/data" "$work/again"
cmp "$work/data" "$work/again"
rm "$work/data" "$work/again"
ok
# A reader that goes away ends it quietly.
status=0
"$raskio" nic -i 10 2>"$work/err" | head -n 2 >/dev/null || status=${PIPESTATUS[0]}
[ "$status" -eq 141 ] && [ ! -s "$work/err" ] || fail "nic into head ended with $status: $(cat "$work/err")"
ok
status=0
"$raskio" stat "$url/none" 2>"$work/err" || status=$?
[ "$status" -eq 1 ] && grep -q '404' "$work/err" || fail "stat of what is not there ended with $status: $(cat "$work/err")"
ok
say "$passed passed, 0 failed, 0 skipped"
