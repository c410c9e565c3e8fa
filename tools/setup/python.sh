#!/bin/bash
# Makes the Python environment of the demo, the benchmark, the tests and the linters from requirements.txt.
# Result: $ATOLL_CACHE/python-<hash>/bin/python
. "$(dirname "$0")/common.sh"

# A virtual environment cannot be moved, so it is made in place and becomes valid with its stamp.
target=$ATOLL_CACHE/$(python_name)
[ -f "$target/.complete" ] && exit 0
mkdir -p "$ATOLL_CACHE/log"
exec 9>"$target.lock"
flock 9
if [ ! -f "$target/.complete" ]; then
  say "making the Python environment $(basename "$target")"
  log=$ATOLL_CACHE/log/python.log
  rm -rf "$target"
  : >"$log"
  run_logged "$log" python3 -m venv "$target"
  run_logged "$log" "$target/bin/pip" install --disable-pip-version-check --no-input -r "$SETUP_DIR/requirements.txt"
  touch "$target/.complete"
fi
exec 9>&-
rm -f "$target.lock"
