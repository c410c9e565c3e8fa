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

# Tests of a bucket that is slow, silent or away wait most of their time, so they run beside the others. So do ten minutes of
# random SQL, which need one core, beside the tests that sleep (marked `waits`). The cost contracts run alone: some of them count
# what background work has done until then.
integration() {
  local random=tests/sql/test_random_sql.py failures=0
  pytest_beside random-sql "$random"
  pytest_beside waits-bucket -m waits tests/bucket
  pytest_of -m waits --ignore tests/bucket tests || failures=1
  end_beside || failures=1
  pytest_of -m "not waits" tests/cost || failures=1
  pytest_beside bucket -m "not waits" tests/bucket tests/windows
  pytest_of -m "not waits" --ignore "$random" --ignore tests/bucket --ignore tests/windows --ignore tests/cost tests || failures=1
  end_beside || failures=1
  return "$failures"
}

pytest_of() { build/bin/python -m pytest -q --durations=15 "$@"; }

declare -A beside=()  # the processes of the tests that run beside others, by name
pytest_beside() {  # pytest_beside NAME ARGUMENT...
  local name=$1
  shift
  pytest_of "$@" >"$logs/$name.log" 2>&1 &
  beside[$name]=$!
  # What runs in the background does not get the signals of the terminal.
  trap 'kill "${beside[@]}" 2>/dev/null || true' EXIT
}
end_beside() {  # false when one of them failed
  local name failures=0
  for name in "${!beside[@]}"; do
    wait "${beside[$name]}" || failures=1
    cat "$logs/$name.log"
  done
  beside=()
  trap - EXIT
  return "$failures"
}

# The tests that failed, and what a failed part said last, without the tests that were skipped.
show_failed() {
  local name
  for name in "${failed[@]}"; do
    say "---- $name failed:"
    grep -E '^(FAILED|ERROR) ' "$logs/$name.log" || true
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
