#!/bin/bash
# Runs the unit tests under ThreadSanitizer: the C++ ones with a RocksDB that is instrumented too, and the Rust ones
# (publisher, part cache, uploads, C interface) with an instrumented standard library.
#
#   tools/tsan.sh [--cpp|--rust]
#
# The two languages are tested separately, because C++ uses GCC's sanitizer and Rust LLVM's. The C++
# tests replace the Rust part by fakes. tsan-suppressions.txt lists reports that are no races.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

want=${1:-all}
failed=()
left_out=()

# On newer kernels, the sanitizer of GCC 12 does not start with address space randomization.
FIXED_LAYOUT="setarch -R"
TSAN_REPORT="halt_on_error=1 second_deadlock_stack=1"

# Prints the tests to leave out: a test that measures time, and tests that fork, because the sanitizer kills
# the forked child of a program with threads.
cpp_tests_left_out() {
  printf 'CatalogTest.five_thousand_tables_open_within_a_second:PreparedTest.RecoveredAfterACrash'
  awk '/^TEST_F/ { name = $0; gsub(/TEST_F\(|\).*| /, "", name); sub(/,/, ".", name) } / crash\(\[/ { printf ":%s", name }' \
    "$ATOLL_ROOT/engine/txn/writes/spill_test.cc"
}

run_cpp() {
  local folder program scratch programs=() options=()
  "$ATOLL_ROOT/tools/setup/rocksdb.sh" --tsan
  for folder in "$ATOLL_ROOT"/engine/*/; do
    [ -n "$(find "$folder" -name "*_test.cc" -print -quit)" ] || continue
    programs+=("atoll_$(basename "$folder")_test")
    options+=(--target "atoll_$(basename "$folder")_test")
  done
  "$ATOLL_ROOT/tools/build.sh" --tsan "${options[@]}"
  for program in "${programs[@]}"; do
    say "thread sanitizer: $program"
    scratch=$(mktemp -d)
    (cd "$scratch" && TMPDIR=$scratch TEST_TMPDIR=$scratch TSAN_OPTIONS=$TSAN_REPORT \
      $FIXED_LAYOUT "$ATOLL_ROOT/build/cmake-tsan/engine/$program" --gtest_brief=1 \
      "--gtest_filter=-$(cpp_tests_left_out)") || failed+=("$program")
    rm -rf "$scratch"
  done
}

# Builds with -O1 only, as in C++, because in reports of more optimised code, inlined functions are hard to
# find.
run_rust() {
  local rust=$ATOLL_CACHE/$RUST_TSAN_NAME target runner
  "$ATOLL_ROOT/tools/setup/rust-tsan.sh"
  if [ ! -d "$rust" ]; then
    left_out+=("all Rust tests (publisher, part cache, uploads, C interface)")
    return 0
  fi
  target=$ARCH-unknown-linux-gnu
  runner=${target^^}
  say "thread sanitizer: the Rust crates"
  (cd "$ATOLL_ROOT" && env RUSTC="$rust/bin/rustc" RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=thread \
    CARGO_TARGET_DIR="$ATOLL_ROOT/build/cargo-tsan" CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
    "CARGO_TARGET_${runner//-/_}_RUNNER=$FIXED_LAYOUT" \
    ATOLL_TEST_MINIO="$ATOLL_ROOT/build/bin/minio" ATOLL_TEST_VERSITYGW="$ATOLL_ROOT/build/bin/versitygw" \
    TSAN_OPTIONS="$TSAN_REPORT suppressions=$ATOLL_ROOT/tools/tsan-suppressions.txt external_symbolizer_path=$rust/bin/llvm-symbolizer" \
    "$rust/bin/cargo" test -Zbuild-std --target "$target" --release --locked --workspace --no-fail-fast \
    --lib --bins --tests --quiet) || failed+=("the Rust crates")
}

[ "$want" = --rust ] || run_cpp
[ "$want" = --cpp ] || run_rust
[ "${#failed[@]}" = 0 ] || die "failed: ${failed[*]}"
[ "${#left_out[@]}" = 0 ] || say "thread sanitizer: NOT RUN: ${left_out[*]}"
say "thread sanitizer: no race"
