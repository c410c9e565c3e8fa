#!/bin/bash
# Makes the Python environment of the demo, the benchmark, the tests and the linters from requirements.txt.
# Result: $ATOLL_CACHE/python-<hash>/bin/python
. "$(dirname "$0")/common.sh"

make_environment() {  # make_environment TARGET LOG
  run_logged "$2" python3 -m venv "$1"
  run_logged "$2" "$1/bin/pip" install --disable-pip-version-check --no-input -r "$SETUP_DIR/requirements.txt"
}

provide_in_place "$(python_name)" make_environment
