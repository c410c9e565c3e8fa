#!/bin/bash
# Runs every Python test that docs/internals/windows.md names, with MinIO and with versitygw, including the
# windows that wait for the collector, and the sessions of docs/operations.md. Prints the seconds of each test.
# `make unit` runs the tests whose names end in .rs.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

cd "$ATOLL_ROOT"
names=$(grep -o '`test_[a-z0-9_]*`' docs/internals/windows.md | tr -d '\140' | sort -u | paste -sd '|' | sed 's/|/ or /g')
failed=0
run() { build/bin/python -m pytest -q --durations=0 --durations-min=1 -k "windows_table or $names" "$@" || failed=1; }

# Tests that choose an S3 server run with both. The others use MinIO in the first run and versitygw in the
# second.
ATOLL_WINDOWS_ALL=1 run tests "$@"
ATOLL_WINDOWS_ALL=1 build/bin/python -m pytest -q tests/documents || failed=1
mapfile -t without_a_name < <(grep -l 'lab\.store()' tests/*/test_*.py)
ATOLL_TEST_STORE=versitygw run "${without_a_name[@]}" "$@"
exit "$failed"
