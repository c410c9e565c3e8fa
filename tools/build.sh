#!/bin/bash
# Builds Atoll: the Rust part with cargo, the plugin with CMake, then checks what was linked.
#
#   tools/build.sh [--asan|--tsan|--mutants|--instrumented] [--target TARGET]...
#
# Results: build/ha_atoll.so, its debug information build/ha_atoll.so.debug, build/atollctl and
# build/atollctl-rows. With --asan build/asan/ha_atoll.so, which is instrumented. With --tsan, use
# --target: only test programs can be built, and they are linked with an instrumented RocksDB. With --mutants
# build/mutants/ha_atoll.so for tools/cost_mutants.sh. With --instrumented build/instrumented/ha_atoll.so for
# tools/rocksdb_profile.sh. With SERIES=11.8 the plugin for that series of MariaDB, build/11.8/ha_atoll.so. --target builds that CMake target instead of the plugin (tools/unit.sh uses it).
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

build=$ATOLL_ROOT/build
output=$SERIES_BUILD
tree=$build/cmake
# Not below build/11.8: so the relative paths in both trees are the same for ccache.
[ "$output" = "$build" ] || tree=$build/cmake-$SERIES
sanitize=OFF
mutants=OFF
instrumented=OFF
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --asan) output=$build/asan tree=$build/cmake-asan sanitize=address ;;
    --mutants) output=$build/mutants tree=$build/cmake-mutants mutants=ON ;;
    --instrumented) output=$build/instrumented tree=$build/cmake-instrumented instrumented=ON ;;
    --tsan) tree=$build/cmake-tsan sanitize=thread ;;
    --target) targets+=("$2"); shift ;;
    *) die "unknown option $1" "see the head of $0" ;;
  esac
  shift
done
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$build/cargo}
# Lets ccache use objects that were compiled in another work tree.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$ATOLL_ROOT} CCACHE_NOHASHDIR=1

check_setup() {
  [ -f "$SERIES_BUILD/setup.env" ] || die "this machine is not set up" "run: make setup"
  # shellcheck disable=SC1091
  . "$SERIES_BUILD/setup.env"
  [ -d "$MARIADB_DIR" ] && [ -d "${MARIADB_SERVER:-}" ] && [ -d "$ROCKSDB_DIR" ] || die "the cache $ATOLL_CACHE is incomplete" "run: make setup"
}

build_rust() {
  local program=$CARGO_TARGET_DIR/release/atollctl
  (cd "$ATOLL_ROOT" && cargo build --release --locked -p objstore-ffi -p atollctl --lib --bins)
  strip_program "$program"
}

# As for the plugin, the debug information is in a file beside the program, where gdb and perf look for it. The
# lock: a build with --asan may have waited for the same cargo.
strip_program() {  # strip_program PROGRAM
  (
    flock 9
    [ "$1" -nt "$build/atollctl" ] || exit 0
    objcopy --only-keep-debug "$1" "$build/atollctl.debug"
    objcopy --strip-unneeded --add-gnu-debuglink="$build/atollctl.debug" "$1" "$build/atollctl.new"
    mv "$build/atollctl.new" "$build/atollctl"
  ) 9>"$build/atollctl.lock"
}

configure() {
  local rocksdb=$ROCKSDB_DIR
  [ "$sanitize" != thread ] || rocksdb=$ATOLL_CACHE/$ROCKSDB_TSAN_NAME
  [ "$instrumented" != ON ] || rocksdb=$ATOLL_CACHE/$ROCKSDB_INSTRUMENTED_NAME
  cmake -S "$ATOLL_ROOT" -B "$tree" -G "Unix Makefiles" \
    -DATOLL_MARIADB_DIR="$MARIADB_DIR" -DATOLL_SERVICES_DIR="$MARIADB_LIBRARIES" -DATOLL_ROCKSDB_DIR="$rocksdb" \
    -DATOLL_OBJSTORE_LIB="$CARGO_TARGET_DIR/release/libatoll_objstore.a" \
    -DATOLL_OUTPUT_DIR="$output" -DATOLL_SANITIZE="$sanitize" -DATOLL_MUTANTS="$mutants" \
    -DATOLL_INSTRUMENTED="$instrumented" >"$tree.log" 2>&1 || {
    cat "$tree.log" >&2
    die "cmake could not configure the build"
  }
  grep -A3 'CMake Warning' "$tree.log" >&2 || true
}

check_setup
build_rust
# Only one build at a time runs in one build directory; a second one waits. (cargo has a lock of its own.)
exec 8>"$tree.lock"
flock 8
configure
if [ "${#targets[@]}" -eq 0 ]; then
  targets=(ha_atoll)
  [ "$output" != "$build" ] || targets+=(atollctl_rows)
fi
cmake --build "$tree" -j"$(nproc)" --target "${targets[@]}"
if [[ " ${targets[*]} " == *" ha_atoll "* ]]; then
  "$ATOLL_ROOT/tools/check-plugin.sh" "$output/ha_atoll.so"
  say "built ${output#"$ATOLL_ROOT"/}/ha_atoll.so for MariaDB $MARIADB_VERSION"
  "$ATOLL_ROOT/tools/installed-server.sh" "$MARIADB_VERSION"
fi
