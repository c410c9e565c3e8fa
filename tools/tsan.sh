#!/bin/bash
# Runs the C++ unit tests under ThreadSanitizer, with a RocksDB that is instrumented too (built once per machine,
# a quarter of an hour on 2 cores).
#
# The Rust part takes no part: the tests stand it in by fakes, and its crates but for the C interface are without
# `unsafe`, so that the compiler excludes data races.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

"$ATOLL_ROOT/tools/setup/rocksdb.sh" --tsan

# Times mean nothing here, and the sanitizer ends a child that a program with threads has forked.
left_out=CatalogTest.five_thousand_tables_open_within_a_second:PreparedTest.RecoveredAfterACrash
left_out+=$(awk '/^TEST_F/ { name = $0; gsub(/TEST_F\(|\).*| /, "", name); sub(/,/, ".", name) } / crash\(\[/ { printf ":%s", name }' \
  "$ATOLL_ROOT/engine/txn/spill_test.cc")

programs=()
options=()
for folder in "$ATOLL_ROOT"/engine/*/; do
  compgen -G "$folder*_test.cc" >/dev/null || continue
  programs+=("atoll_$(basename "$folder")_test")
  options+=(--target "atoll_$(basename "$folder")_test")
done
"$ATOLL_ROOT/tools/build.sh" --tsan "${options[@]}"

failed=()
for program in "${programs[@]}"; do
  say "thread sanitizer: $program"
  scratch=$(mktemp -d)
  # Without a fixed address layout the sanitizer of GCC 12 refuses to start on newer kernels.
  (cd "$scratch" && TMPDIR=$scratch TEST_TMPDIR=$scratch \
    TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1" \
    setarch -R "$ATOLL_ROOT/build/cmake-tsan/engine/$program" --gtest_brief=1 "--gtest_filter=-$left_out") || failed+=("$program")
  rm -rf "$scratch"
done
[ "${#failed[@]}" = 0 ] || die "failed: ${failed[*]}"
say "thread sanitizer: no race"
