#!/bin/bash
# Everything that must pass before a change is merged; .ci/run runs this and nothing else.
#
# All parts are run even when one fails, so that one run tells everything; but without a plugin nothing that needs a
# server can run. Ends with what the failed parts said last, one line per part and a closing line: the end of a long log
# alone tells what failed. Each part's whole output is in build/log/.
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

# Tests that sleep most of their time run beside random SQL, which takes ten minutes and about one core.
integration() {
  local log=build/random-sql.log random waits=0 others=0
  build/bin/python -m pytest -q tests/sql/test_random_sql.py >"$log" 2>&1 &
  random=$!
  pytest_of -m waits || waits=$?
  wait "$random" && random=0 || random=$?
  cat "$log"
  pytest_of -m "not waits" --ignore tests/sql/test_random_sql.py || others=$?
  [ "$random$waits$others" = 000 ]
}

pytest_of() { build/bin/python -m pytest -q --durations=15 "$@" tests; }

# What a failed part said last, without the tests that were skipped.
show_failed() {
  local name
  for name in "${failed[@]}"; do
    say "---- $name failed:"
    grep -v '^SKIPPED ' "$logs/$name.log" | tail -15
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
