#!/bin/bash
# Builds and runs the C++ unit tests (one program per folder of engine/) and the Rust tests.
#
#   tools/unit.sh [--cpp|--rust]
#
# The last line says how many test programs passed and failed. The exit status is 1 when one has failed.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

build=$ATOLL_ROOT/build
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$build/cargo}
# Without these variables, the tests with S3 servers are skipped.
export ATOLL_TEST_MINIO=$build/bin/minio ATOLL_TEST_VERSITYGW=$build/bin/versitygw
want=${1:-all}
passed=0
failed=()

programs() {
  local folder
  for folder in "$ATOLL_ROOT"/engine/*/; do
    if [ -n "$(find "$folder" -name "*_test.cc" -print -quit)" ]; then printf 'atoll_%s_test ' "$(basename "$folder")"; fi
  done
}

record() {  # record NAME STATUS
  if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed+=("$1"); fi
}

run_cpp() {
  local program options=() status
  for program in $(programs); do options+=(--target "$program"); done
  [ "${#options[@]}" -gt 0 ] || return 0
  options+=(--target atoll_edit_entries)  # for an integration test; built here to find compile errors early
  "$ATOLL_ROOT/tools/build.sh" "${options[@]}"
  for program in $(programs); do
    status=0
    # Each program gets a folder of its own for its files, which is removed afterwards.
    scratch=$(mktemp -d)
    (cd "$scratch" && TMPDIR=$scratch TEST_TMPDIR=$scratch "$build/cmake/engine/$program" --gtest_brief=1) || status=$?
    rm -rf "$scratch"
    record "$program" "$status"
  done
}

run_rust() {
  local status=0
  if cargo nextest --version >/dev/null 2>&1; then
    (cd "$ATOLL_ROOT" && cargo nextest run --release --locked --workspace) || status=$?
  else
    (cd "$ATOLL_ROOT" && cargo test --release --locked --workspace --quiet) || status=$?
  fi
  record "rust" "$status"
}

[ "$want" = --rust ] || run_cpp
[ "$want" = --cpp ] || run_rust
if [ "${#failed[@]}" -gt 0 ]; then
  say "unit tests: $passed programs passed, ${#failed[@]} failed: ${failed[*]}"
  exit 1
fi
say "unit tests: $passed programs passed, 0 failed"
