#!/bin/bash
# Runs every Python test that docs/internals/windows.md names, on MinIO and versitygw, with the windows that wait for the
# collector; prints the seconds of each. The names that end in .rs are run by `make unit`.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

cd "$ATOLL_ROOT"
names=$(grep -o '`test_[a-z0-9_]*`' docs/internals/windows.md | tr -d '\140' | sort -u | paste -sd '|' | sed 's/|/ or /g')
failed=0
run() { build/bin/python -m pytest -q --durations=0 --durations-min=1 -k "windows_table or $names" "$@" || failed=1; }

# Tests that name an S3 server name both; the others use MinIO, and versitygw in the second run.
ATOLL_WINDOWS_ALL=1 run tests "$@"
mapfile -t without_a_name < <(grep -l 'lab\.store()' tests/*/test_*.py)
ATOLL_TEST_STORE=versitygw run "${without_a_name[@]}" "$@"
exit "$failed"
