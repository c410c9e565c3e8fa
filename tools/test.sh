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

# Tests with a slow or unreachable bucket mostly wait, so they run beside other tests. Ten minutes of random
# SQL, which need one core, run beside the tests that sleep (marked `waits`). The tests of the cost contracts
# run alone, because some of them count background work.
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

declare -A beside=()  # name -> process of the tests that run beside others
pytest_beside() {  # pytest_beside NAME ARGUMENT...
  local name=$1
  shift
  pytest_of "$@" >"$logs/$name.log" 2>&1 &
  beside[$name]=$!
  # Background processes do not get the terminal's signals, so they are killed at exit.
  trap 'kill "${beside[@]}" 2>/dev/null || true' EXIT
}
end_beside() {  # false when one of them has failed
  local name failures=0
  for name in "${!beside[@]}"; do
    wait "${beside[$name]}" || failures=1
    cat "$logs/$name.log"
  done
  beside=()
  trap - EXIT
  return "$failures"
}

# Prints, for each failed part, the tests that failed and the last lines of its output, without skipped tests.
# MTR prints what differs after the name of the test.
show_failed() {
  local name
  for name in "${failed[@]}"; do
    say "---- $name failed:"
    grep -E '^(FAILED|ERROR) ' "$logs/$name.log" || true
    grep -A 25 -F '[ fail ]' "$logs/$name.log" | head -60 || true
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
