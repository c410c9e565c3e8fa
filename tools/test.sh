#!/bin/bash
# Everything that must pass before a change is merged; .ci/run runs this and nothing else.
#
# All parts are run even when one fails, so that one run tells everything; but without a plugin nothing that needs a
# server can run. Ends with one line per part and a closing line.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

cd "$ATOLL_ROOT"
started=$SECONDS
results=()
failures=0

part() {  # part NAME COMMAND...: false when it failed
  local name=$1 from=$SECONDS status=0
  shift
  say "---- $name"
  "$@" </dev/null || status=$?
  if [ "$status" = 0 ]; then
    results+=("$(printf '%-12s passed  %4d s' "$name" $((SECONDS - from)))")
  else
    results+=("$(printf '%-12s FAILED  %4d s' "$name" $((SECONDS - from)))")
    failures=$((failures + 1))
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

finish() {
  say "---- summary"
  printf '  %s\n' "${results[@]}"
  if [ "$failures" -gt 0 ]; then
    echo "make test: $failures parts failed in $(((SECONDS - started) / 60)) min"
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
