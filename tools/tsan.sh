#!/bin/bash
# Runs the tests of the lock table under ThreadSanitizer.
#
# RocksDB and the Rust part are not instrumented, and code that shares memory with them would be reported without being
# wrong. So the tests are those of files that open no database: lock table, ranges, lock waits, deadlocks.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

"$ATOLL_ROOT/tools/build.sh" --tsan --target atoll_txn_test

filter=$(grep -L test_database.h "$ATOLL_ROOT"/engine/txn/*_test.cc |
  xargs sed -nE 's/^TEST(_[FP])?\(([A-Za-z]+), .*/*\2.*/p' | sort -u | paste -sd:)
[ -n "$filter" ] || die "no tests were found in engine/txn"

# Without a fixed address layout the sanitizer of GCC 12 refuses to start on newer kernels.
TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1" setarch -R \
  "$ATOLL_ROOT/build/cmake-tsan/engine/atoll_txn_test" --gtest_brief=1 "--gtest_filter=$filter"
say "thread sanitizer: no race"
