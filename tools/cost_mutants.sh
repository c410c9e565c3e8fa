#!/bin/bash
# Shows that the tests of the cost contracts (tests/cost/test_cost.py) fail when a bound of the engine is
# switched off. Builds the engine with the switches of engine/base/mutant.h. Runs the tests once with all
# bounds on, and once for each switch.
#
#   tools/cost_mutants.sh [NAME]...      these switches only
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

cd "$ATOLL_ROOT"
tools/build.sh --mutants
export ATOLL_PLUGIN=$ATOLL_ROOT/build/mutants/ha_atoll.so

contracts() {  # contracts LOG
  build/bin/python -m pytest -q -x tests/cost/test_cost.py -k "not queue" </dev/null >"$1" 2>&1
}

mapfile -t names < <(sed -nE 's/^  X\(([a-z_]+)\).*/\1/p' engine/base/mutant.h)
[ $# = 0 ] || names=("$@")
logs=build/mutants/log
mkdir -p "$logs"
contracts "$logs/none.txt" || die "the contracts fail with all bounds on" "see $logs/none.txt"
unnoticed=()
for name in "${names[@]}"; do
  if ATOLL_MUTANT=$name contracts "$logs/$name.txt"; then
    unnoticed+=("$name")
    say "$name: NOT noticed"
  else
    say "$name: noticed"
  fi
done
echo "$((${#names[@]} - ${#unnoticed[@]})) passed, ${#unnoticed[@]} failed"
[ "${#unnoticed[@]}" = 0 ]
