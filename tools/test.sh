#!/bin/bash
# Runs everything that must pass before a change is merged. .ci/run runs only this.
#
# All parts are run even when one fails, so that one run shows all failures. But without a plugin, parts that
# need a server cannot run. At the end it prints the last output of the failed parts, one line per part and a
# closing line, so that the end of a long log shows what has failed. The whole output of each part is in
# build/log/.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

cd "$ATOLL_ROOT"
started=$SECONDS
results=()
failed=()
logs=$ATOLL_ROOT/build/log
mkdir -p "$logs"

part() {  # part NAME COMMAND...: false when it failed
  local name=$1 from=$SECONDS status=0
  shift
  say "---- $name"
  "$@" </dev/null 2>&1 | tee "$logs/$name.log" || status=$?
  if [ "$status" = 0 ]; then
    results+=("$(printf '%-12s passed  %4d s' "$name" $((SECONDS - from)))")
  else
    results+=("$(printf '%-12s FAILED  %4d s' "$name" $((SECONDS - from)))")
    failed+=("$name")
  fi
  return "$status"
}

# The tests of the cost contracts run alone, because some of them count background work. Of all other tests three
# run at a time: many of them mostly wait, for a bucket that is slow or away.
integration() {
  local failures=0
  pytest_of tests/cost || failures=1
  pytest_of -n 3 --dist worksteal --ignore tests/cost tests || failures=1
  return "$failures"
}

pytest_of() { build/bin/python -m pytest -q --durations=15 "$@"; }

# Prints, for each failed part, the last lines of its output, the tests that failed, and what pytest and the Rust
# tests say of the reason. MTR prints what differs after the name of the test.
show_failed() {
  local name
  for name in "${failed[@]}"; do
    say "---- $name failed:"
    grep -A 25 -F '[ fail ]' "$logs/$name.log" | head -60 || true
    grep -v -e '^SKIPPED ' -e ' call  ' "$logs/$name.log" | tail -15
    grep -A 3 -E '^thread .* panicked at' "$logs/$name.log" | head -40 || true
    grep -E '^(FAILED |ERROR |E   )' "$logs/$name.log" | cut -c1-400 | head -60 || true
  done
}

finish() {
  show_failed
  say "---- summary"
  printf '  %s\n' "${results[@]}"
  if [ "${#failed[@]}" -gt 0 ]; then
    echo "make test: ${#failed[@]} parts failed in $(((SECONDS - started) / 60)) min"
    exit 1
  fi
  echo "make test: all parts passed in $(((SECONDS - started) / 60)) min"
}

part setup tools/setup/all.sh || finish
part build tools/build.sh && built=yes || built=no
part check tools/check.sh || true
part unit tools/unit.sh || true
part fuzz tools/fuzz.sh --short || true
if [ "$built" = yes ]; then
  part mtr tools/mtr.sh || true
  part integration integration || true
fi
finish
