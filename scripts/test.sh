#!/usr/bin/env bash
# Runs the stages named on the command line, or all of them, and says how long each took. The last line counts.
# What a stage prints goes to build/logs/STAGE.log; the end of it is shown if the stage fails (V=1 shows everything).
. "$(dirname "$0")/common.sh"
all=(rules install library style rust header loom c headers consumers readme python nginx endpoints tool kvikio valgrind soak asan tsan fuzz system msrv licences secrets)
stages=("$@")
[ $# -gt 0 ] || stages=("${all[@]}")
for stage in "${stages[@]}"; do
  [ -e "scripts/stages/$stage.sh" ] || fail "there is no stage '$stage'; there are: ${all[*]}"
done
mkdir -p "$build/logs"
bash scripts/setup.sh test

passed=0 failed=0 skipped=0 broken=()
# Adds up the closing lines of the test runners in a log; a stage without any counts as one test.
count() {
  local log=$1 status=$2 counts
  counts=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | awk '
    /^ *Summary .* tests? run:/ { p += word("passed"); f += word("failed"); f += word("timed"); s += word("skipped"); n = 1 }
    /^test result:/             { p += word("passed"); f += word("failed"); s += word("ignored"); n = 1 }
    /tests failed out of/       { f += $4; p += $NF - $4; n = 1 }
    /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { p += $1; f += $3; s += $5; n = 1 }
    /^ *[0-9]+ - .*\(Skipped\)$/ { s += 1; p -= 1 }
    function word(name,  i) { for (i = 2; i <= NF; i++) if (index($i, name) == 1) return $(i - 1) + 0; return 0 }
    END { print p + 0, f + 0, s + 0, n + 0 }')
  read -r p f s n <<<"$counts"
  if [ "$status" -eq 77 ]; then
    s=$((s + 1))
  elif [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
    f=1
  elif [ "$n" -eq 0 ]; then
    p=1
  fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# run STAGE: its output goes to its log, its status and its time beside that.
run() {
  local log=$build/logs/$1.log begin status=0
  begin=$(date +%s.%N)
  if [ -n "${V:-}" ]; then
    bash "scripts/stages/$1.sh" 2>&1 | tee "$log" || status=${PIPESTATUS[0]}
  else
    bash "scripts/stages/$1.sh" >"$log" 2>&1 || status=$?
  fi
  awk -v s="$status" -v b="$begin" -v e="$(date +%s.%N)" 'BEGIN { printf "%d %.1f s\n", s, e - b }' >"$build/logs/$1.status"
}
# report STAGE: a line for what it did, and the end of its log if it failed.
report() {
  local stage=$1 log=$build/logs/$1.log status took
  read -r status took <"$build/logs/$stage.status"
  count "$log" "$status"
  case $status in
    0) printf '%-10s ok      %9s' "$stage" "$took" && { [ "$n" -eq 0 ] && say "" || say "   $p passed$([ "$s" -eq 0 ] || echo ", $s skipped")"; } ;;
    77) printf '%-10s skipped %9s   %s\n' "$stage" "$took" "$(sed -n 's/^skipped: //p' "$log" | tail -n 1)" ;;
    *)
      printf '%-10s FAILED  %9s\n' "$stage" "$took"
      broken+=("$stage")
      say "---- the first errors and the end of build/logs/$stage.log"
      head -n -100 "$log" | grep -m 10 -E '^(error|fault|FAIL|rule broken)|: error:|\*\*\*Failed|panicked at|ERROR: [A-Z][a-z]*Sanitizer' || true
      tail -n 100 "$log"
      say "----"
      ;;
  esac
}

started=$SECONDS
rm -f "$build"/logs/*.status
# These compile, each in a directory of its own, and the tests mostly wait: they take the time that is left over. They start once
# the package is installed, whose libraries they use.
aside=()
if [ $# -eq 0 ]; then aside=(msrv loom system fuzz); fi
beside=
# What is downloaded comes while the first stages compile. Whether it came is for the stages to say.
if [ $# -eq 0 ]; then (renice -n 19 $BASHPID; exec bash scripts/environments.sh endpoints kvikio) >"$build/logs/environments.txt" 2>&1 & fi
for stage in "${stages[@]}"; do
  [[ " ${aside[*]} " == *" $stage "* ]] && continue
  run "$stage"
  report "$stage"
  if [ "$stage" = install ]; then
    # Everything after it works on the installed package, and an older one would prove nothing.
    [ ${#broken[@]} -eq 0 ] || break
    if [ ${#aside[@]} -gt 0 ]; then
      (renice -n 19 $BASHPID >/dev/null 2>&1 || true; for stage in "${aside[@]}"; do run "$stage"; done) &
      beside=$!
    fi
  fi
done
if [ -n "$beside" ]; then
  wait "$beside" || true
  for stage in "${aside[@]}"; do report "$stage"; done
fi
say "all stages: $((SECONDS - started)) s"
[ ${#broken[@]} -eq 0 ] || say "failed: ${broken[*]} (alone: make test-${broken[0]})"
say "$passed passed, $failed failed, $skipped skipped" | tee "$build/logs/summary"
[ ${#broken[@]} -eq 0 ]
