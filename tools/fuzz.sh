#!/bin/bash
# Fuzzes, with libFuzzer, all code that parses bytes from a bucket (fuzz/README.md).
#
#   tools/fuzz.sh --minutes N     all targets, N minutes together; new inputs are kept in build/fuzz/corpus
#   tools/fuzz.sh --short         the inputs of fuzz/corpus and a few thousand random ones, for the C++
#                                 targets only: a unit test (fuzzing_test.rs) does the same for the Rust
#                                 targets
#
# Prints the number of runs of each target. Stops with exit status 1 at the first input that makes a target
# fail. The input is kept beside the programs, and its path is in the output.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

CPP_TARGETS=(rows keys descriptions tables)
# Each target has a folder of inputs, so the folders name the targets (fuzzing_test.rs fails when a Rust
# target has none).
mapfile -t RUST_TARGETS < <(find "$ATOLL_ROOT/fuzz/corpus" -mindepth 1 -type d -printf '%f\n' |
  grep -vxF "$(printf '%s\n' "${CPP_TARGETS[@]}")" | sort)
SHORT_RUNS=5000
fuzz=$ATOLL_ROOT/build/fuzz
mode=--minutes
minutes=10
case ${1:-} in
  --short) mode=--short ;;
  --minutes) minutes=${2:?} ;;
  *) die "unknown option ${1:-}" "see the head of $0" ;;
esac
mkdir -p "$fuzz"

# Builds the fuzz program for table files, linked with RocksDB as the plugin is. RocksDB is not instrumented,
# so checks of container overflows are off.
build_tables() {
  local engine=$ATOLL_ROOT/engine rocksdb=$ATOLL_CACHE/$ROCKSDB_NAME
  local sources=("$ATOLL_ROOT/fuzz/table_fuzz.cc" "$engine"/cloudfs/{file_name,io_status,table_footer,table_reader}.cc)
  sources+=("$engine"/lsm/options.cc "$engine"/lsm/blocks/{head_differences,split_block,split_compression}.cc)
  sources+=("$engine"/lsm/figures/work_statistics.cc "$engine"/base/{interrupt,status,work,border/border}.cc)
  if [ -x "$fuzz/table_fuzz" ] && [ -z "$(find "$engine"/{base,bridge,cloudfs,lsm} "${sources[0]}" -newer "$fuzz/table_fuzz" -name '*.[ch]*')" ]; then
    return
  fi
  run_logged "$fuzz/clang-tables.log" clang++ -std=c++20 -O1 -g -include "$engine/base/namespace.h" \
    -fsanitize=fuzzer,address,undefined -fno-sanitize=vptr,function -fno-sanitize-recover=all -I"$engine" \
    -isystem "$rocksdb/include" "${sources[@]}" -o "$fuzz/table_fuzz" "$rocksdb/librocksdb.a" -lzstd -llz4 -lz -ldl -lpthread -latomic
}

build_cpp() {
  local codec=$ATOLL_ROOT/engine/codec description=$ATOLL_ROOT/engine/catalog/description
  local sources=("$codec"/{key_codec,key_decode,key_parts,key_text,large_row,row_codec}.cc)
  sources+=("$description"/{description_record,table_description}.cc)
  sources+=("$ATOLL_ROOT"/engine/base/{status,border/assert}.cc)
  sources+=("$ATOLL_ROOT/fuzz/engine_fuzz.cc")
  # Build again only if a source is newer than the program.
  if [ -x "$fuzz/engine_fuzz" ] &&
    [ -z "$(find "$codec" "$description" "$ATOLL_ROOT/engine/base" "$ATOLL_ROOT/fuzz/engine_fuzz.cc" -newer "$fuzz/engine_fuzz" -name '*.[ch]*')" ]; then
    return
  fi
  run_logged "$fuzz/clang.log" clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
    -I"$ATOLL_ROOT/engine" "${sources[@]}" -o "$fuzz/engine_fuzz"
}

# The flags make a stable Rust compiler insert libFuzzer's edge counters. With an explicit target triple,
# cargo does not use the flags for build scripts.
build_rust() {
  local triple
  triple=$(rustc -vV | sed -n 's/^host: //p')
  local pass=-Cllvm-args=-sanitizer-coverage
  (cd "$ATOLL_ROOT/fuzz" && CARGO_TARGET_DIR=$fuzz/cargo \
    RUSTFLAGS="-Cpasses=sancov-module $pass-level=4 $pass-inline-8bit-counters $pass-pc-table $pass-trace-compares -Ccodegen-units=4" \
    cargo build --release --locked --quiet --target "$triple")
  ln -sfn "cargo/$triple/release/atoll-fuzz" "$fuzz/atoll-fuzz"
}

# fuzz_one PROGRAM TARGET LIMIT: fuzzes one target and prints one line with the number of runs.
fuzz_one() {
  local program=$1 target=$2 limit=$3 new=$fuzz/corpus/$2 log=$fuzz/$2.log runs
  mkdir -p "$new"
  if ! ASAN_OPTIONS=detect_container_overflow=0 ATOLL_FUZZ_TARGET=$target "$fuzz/$program" "$limit" -max_len=4096 -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$fuzz/$target-" "$new" "$ATOLL_ROOT/fuzz/corpus/$target" >"$log" 2>&1 </dev/null; then
    tail -n 40 "$log" >&2
    die "fuzzing $target found something" "the whole output is in $log"
  fi
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  printf '%-10s %12d runs, %5d inputs\n' "$target" "$runs" "$(find "$new" "$ATOLL_ROOT/fuzz/corpus/$target" -type f | wc -l)"
}

# cpp_program TARGET
cpp_program() { if [ "$1" = tables ]; then printf table_fuzz; else printf engine_fuzz; fi; }

build_cpp
build_tables
if [ "$mode" = --short ]; then
  for target in "${CPP_TARGETS[@]}"; do fuzz_one "$(cpp_program "$target")" "$target" "-runs=$SHORT_RUNS"; done
  exit 0
fi
build_rust
seconds=$((minutes * 60 / (${#RUST_TARGETS[@]} + ${#CPP_TARGETS[@]})))
for target in "${CPP_TARGETS[@]}"; do fuzz_one "$(cpp_program "$target")" "$target" "-max_total_time=$seconds"; done
for target in "${RUST_TARGETS[@]}"; do fuzz_one atoll-fuzz "$target" "-max_total_time=$seconds"; done
say "fuzzing: nothing found in $minutes min"
