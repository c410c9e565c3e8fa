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

integration() { build/bin/python -m pytest -q --durations=20 tests; }

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
