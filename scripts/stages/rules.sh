#!/usr/bin/env bash
# Rules of the source tree that a command can check. Each prints the lines that break it.
. "$(dirname "$0")/../common.sh"
# The last part of a pipeline runs in this shell, so that `rule` can count.
shopt -s lastpipe
broken=0 passed=0
# rule TEXT, with the offending lines on standard input
rule() {
  local lines
  lines=$(cat)
  if [ -n "$lines" ]; then
    printf 'rule broken: %s\n%s\n' "$1" "$lines"
    broken=$((broken + 1))
  else
    passed=$((passed + 1))
  fi
}
# The lines of Rust files outside comments and test modules, as FILE:LINE:TEXT. A test module is the last item of a file.
code() {
  find "${1:-src}" -name '*.rs' ! -name 'tests.rs' ! -name '*_tests.rs' ! -path '*/tests/*' | sort | while read -r file; do
    awk -v file="$file" '
      test && /^(pub(\([a-z]*\))? )?mod [a-z_]+ \{/ { exit }
      { test = /^#\[cfg\((all\()?(any\()?test/ }
      !/^ *\/\// { print file ":" FNR ":" $0 }' "$file"
  done
}

code | grep -vE '^src/(ffi|sys)/' | grep -E '\bunsafe\b' | grep -v 'unsafe_code' | rule 'unsafe code lives in src/ffi and src/sys only' || true
code | grep -vE '^src/(ffi|sys)/' | grep -E 'extern "C' | rule 'extern "C" lives in src/ffi and src/sys only' || true
code | grep -vE '^src/sys/' | grep -E '\bcurl_sys::' | rule 'curl_sys is named in src/sys only' || true
code | grep -vE '^src/sys/' | grep -E '\b(cudarc|io_uring)::' | rule 'cudarc and io_uring are named in src/sys only' || true
code | grep -E '\.(unwrap|expect)\(|\b(panic|todo|unimplemented|dbg)!' |
  rule 'no unwrap, expect or panic outside tests: the library answers with an error' || true
code | grep -E '\b(println|print)!' | rule "nothing is printed on stdout: it is the host program's" || true
code | grep -E '\buse crate::(transport|staging)::[a-z_]+::|crate::(transport|staging)::(reactor|thread_pool|uring|pread|host|cuda)\b' |
  grep -vE '^src/(client|transport|staging)' | rule 'concrete transports and stagings are named in client.rs only' || true
grep -rnE '\b(TODO|FIXME|XXX)\b' src cli nic nvtx/src nvtx/recorder include examples kvikio tests_c simcuda testserver tests fuzz/fuzz_targets scripts cmake Makefile --include='*' 2>/dev/null |
  grep -v 'scripts/stages/rules.sh' | rule 'no notes to oneself: do it, or file it' || true
find src cli nic nvtx/src nvtx/recorder simcuda testserver tests fuzz/fuzz_targets tests_c examples include kvikio -name '*.rs' -o -name '*.c' -o -name '*.cpp' -o -name '*.hpp' -o -name '*.py' 2>/dev/null | xargs -r wc -l |
  awk '$2 != "total" && $1 > 700 { print $2 ": " $1 " lines" }' | rule 'a file is at most 700 lines long' || true
grep -rnE '#include [<"](kvikio/|cuda|BS_|rapids)' kvikio |
  rule 'the drop-in is built without any header of KvikIO or CUDA' || true
grep -rnE '(^|[^a-zA-Z0-9_.])/(home|root|work|tmp/[a-z]+)/' --include='*.rs' --include='*.c' --include='*.h' --include='*.hpp' --include='*.cpp' --include='*.py' \
  --include='*.md' --include='*.toml' --include='*.txt' --include='*.cmake' --include='*.in' . 2>/dev/null |
  grep -vE '^\./(target|build)/' | rule 'no file names a directory of one machine' || true
bash -n scripts/*.sh 2>&1 | rule 'scripts parse' || true
bash -n scripts/stages/*.sh 2>&1 | rule 'stage scripts parse' || true

# The search finds what it looks for.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
printf 'fn a() {\n    b.unwrap();\n}\n#[cfg(test)]\nmod tests {\n    fn c() { d.unwrap() }\n}\n' >"$planted/x.rs"
[ "$(code "$planted" | grep -c '\.unwrap(')" = 1 ] || fail "the rules do not see a planted unwrap, or see one in a test"
say "$passed passed, $broken failed, 0 skipped"
[ "$broken" -eq 0 ]
