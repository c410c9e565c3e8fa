#!/bin/bash
# Builds the static RocksDB library that is linked into the plugin.
#
# The source is taken from a Rust crate, because a crate is an exact archive with a checksum. The crate itself
# is never compiled. The reasons for the options:
# Symbols are hidden, because the server may load another RocksDB with ha_rocksdb.so. RTTI is on, because the
# plugin derives classes from those of RocksDB and of the server. The perf context is off: in a plugin,
# reading its level is a call of __tls_get_addr, several times for each row (up to 13 % of a scan). Instead,
# engine/base/work.h counts the work of statements. io_uring and jemalloc are off, because the plugin must not
# need libraries that a plain Debian server lacks. Jumbo sources (12 files each) reduce the compile time to
# less than half. The profile rocksdb-profile.tar.xz tells the compiler which branches everyday SQL takes.
# tools/rocksdb_profile.sh makes it, and docs/costs.md has its effect. Compilers other than Debian 12's ignore
# it.
#
#   tools/setup/rocksdb.sh [--tsan|--instrumented]
#       --tsan: for ThreadSanitizer, see tools/tsan.sh     --instrumented: counts its branches, for tools/rocksdb_profile.sh
#
# Result: $ATOLL_CACHE/rocksdb-<version>-...[-tsan|-instrumented]/{librocksdb.a,include}
. "$(dirname "$0")/common.sh"

name=$ROCKSDB_NAME
optimisation="-O2 -DNDEBUG"
variant=${1:-}
case $variant in
  "") ;;
  --tsan) name=$ROCKSDB_TSAN_NAME optimisation="-O1 -DNDEBUG" ;;
  --instrumented) name=$ROCKSDB_INSTRUMENTED_NAME ;;
  *) die "unknown option $variant" "see the head of $0" ;;
esac

# Prints the compiler's options for the variant. A profile is found by the path of its object file relative to
# WORK/build.
instrumentation() {  # instrumentation WORK
  local named="-fprofile-prefix-path=$1/build"
  case $variant in
    --tsan) printf '%s' "-fsanitize=thread -Wno-tsan" ;;
    --instrumented) printf '%s' "-fprofile-generate=/rocksdb-profile -fprofile-update=prefer-atomic $named" ;;
    *) printf '%s' "-fprofile-use=$1/rocksdb-profile -fprofile-partial-training -Wno-missing-profile -Wno-coverage-mismatch $named" ;;
  esac
}

portable_level() { if [ "$ARCH" = x86_64 ]; then printf x86-64-v2; else printf 1; fi; }

fetch_crate() {  # fetch_crate LOG: prints the folder of the unpacked crate
  run_logged "$1" cargo fetch --locked --manifest-path "$SETUP_DIR/rocksdb-source/Cargo.toml"
  local manifest
  manifest=$(cargo metadata --locked --format-version 1 --manifest-path "$SETUP_DIR/rocksdb-source/Cargo.toml" |
    python3 -c 'import json, sys; print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == sys.argv[1]))' \
      "$ROCKSDB_CRATE")
  dirname "$manifest"
}

build_rocksdb() {  # build_rocksdb WORK OUT LOG
  local work=$1 out=$2 log=$3 crate
  crate=$(fetch_crate "$log")
  [ -n "$variant" ] || tar -C "$work" -xJf "$SETUP_DIR/rocksdb-profile.tar.xz"
  [ -f "$crate/rocksdb/include/rocksdb/version.h" ] || die "the crate in $crate holds no RocksDB source"
  run_logged "$log" cmake -S "$crate/rocksdb" -B "$work/build" -G "Unix Makefiles" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="$optimisation" \
    -DCMAKE_CXX_FLAGS="-fPIC -fvisibility=hidden -fvisibility-inlines-hidden -g1 -DNPERF_CONTEXT $(instrumentation "$work")" \
    -DUSE_RTTI=ON -DPORTABLE="$(portable_level)" -DFAIL_ON_WARNINGS=OFF \
    -DWITH_ZSTD=ON -DWITH_LZ4=ON -DWITH_ZLIB=ON -DWITH_SNAPPY=OFF -DWITH_BZ2=OFF \
    -DWITH_LIBURING=OFF -DWITH_JEMALLOC=OFF -DWITH_GFLAGS=OFF -DWITH_NUMA=OFF \
    -DWITH_TESTS=OFF -DWITH_TOOLS=OFF -DWITH_CORE_TOOLS=OFF -DWITH_TRACE_TOOLS=OFF \
    -DWITH_BENCHMARK=OFF -DWITH_BENCHMARK_TOOLS=OFF -DROCKSDB_BUILD_SHARED=OFF \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=12 \
    -DCMAKE_PROJECT_rocksdb_INCLUDE="$SETUP_DIR/rocksdb-unity.cmake"
  run_logged "$log" make -C "$work/build" -j"$(nproc)" rocksdb
  cp "$work/build/librocksdb.a" "$out/"
  cp -r "$crate/rocksdb/include" "$out/include"
  cp "$crate/rocksdb/COPYING" "$out/"
}

[ -d "$ATOLL_CACHE/$name" ] || provide "$name" build_rocksdb
