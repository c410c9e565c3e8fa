# shellcheck shell=bash disable=SC2034  # names for the scripts that source it
# Shared by the set-up scripts: messages, the cache folder, and functions that build a product once per
# machine. Source it from bash; it sets strict mode.
#
# Every product is stored in $ATOLL_CACHE under a name that contains its version. It is built in a temporary
# folder there and renamed when complete, so an interrupted set-up leaves no incomplete product under a final
# name.
set -euo pipefail

SETUP_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ATOLL_ROOT=$(cd "$SETUP_DIR/../.." && pwd)
ATOLL_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/atoll
ARCH=$(uname -m)
# shellcheck source=versions.env
. "$SETUP_DIR/versions.env"
# The series of MariaDB that is meant, and where the products of a build for it are.
SERIES=${SERIES:-$MARIADB_SERIES}
SERIES_BUILD=$ATOLL_ROOT/build

say() { printf 'atoll: %s\n' "$*" >&2; }

die() {
  printf 'atoll: ERROR: %s\n' "$1" >&2
  shift
  local line
  for line in "$@"; do printf 'atoll:   %s\n' "$line" >&2; done
  exit 1
}

case $SERIES in
  "$MARIADB_SERIES") ;;
  11.8)
    MARIADB_SERIES=11.8 MARIADB_VERSION=$MARIADB_VERSION_11_8
    SERIES_BUILD=$ATOLL_ROOT/build/11.8
    ;;
  *) die "Atoll is not built for MariaDB $SERIES" "SERIES may be $MARIADB_SERIES or 11.8" ;;
esac

# run_logged LOG COMMAND...: prints nothing if the command succeeds. Otherwise prints the end of the log and
# exits.
run_logged() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" >>"$log" 2>&1 </dev/null; then
    tail -n 40 "$log" >&2
    die "failed: $*" "the whole output is in $log"
  fi
}

# provide NAME FUNCTION: if $ATOLL_CACHE/NAME does not exist, makes it by calling FUNCTION with a temporary
# folder. A lock makes concurrent set-ups wait for each other. The build log is kept in
# $ATOLL_CACHE/log/NAME.log.
provide() {
  local name=$1 builder=$2
  local target=$ATOLL_CACHE/$name work started
  [ -d "$target" ] && return 0
  mkdir -p "$ATOLL_CACHE/log"
  exec 9>"$ATOLL_CACHE/$name.lock"
  flock 9
  if [ ! -d "$target" ]; then
    started=$SECONDS
    say "building $name (once per machine; log: $ATOLL_CACHE/log/$name.log)"
    : >"$ATOLL_CACHE/log/$name.log"
    work=$(mktemp -d "$ATOLL_CACHE/$name.XXXXXX")
    # shellcheck disable=SC2064  # expand the folder's name now, not at exit
    trap "rm -rf '$work'" EXIT
    mkdir "$work/out"
    "$builder" "$work" "$work/out" "$ATOLL_CACHE/log/$name.log"
    mv -T "$work/out" "$target"
    rm -rf "$work"
    trap - EXIT
    say "$name: done in $((SECONDS - started)) s"
  fi
  exec 9>&-
  rm -f "$ATOLL_CACHE/$name.lock"
}

# provide_in_place NAME FUNCTION: as provide, for products that cannot be moved, such as a virtual
# environment. FUNCTION makes the product in $ATOLL_CACHE/NAME itself; the file .complete marks it as
# finished.
provide_in_place() {
  local name=$1 builder=$2
  local target=$ATOLL_CACHE/$name log=$ATOLL_CACHE/log/$name.log
  [ -f "$target/.complete" ] && return 0
  mkdir -p "$ATOLL_CACHE/log"
  exec 9>"$target.lock"
  flock 9
  if [ ! -f "$target/.complete" ]; then
    say "making $name (once per machine; log: $log)"
    rm -rf "$target"
    : >"$log"
    "$builder" "$target" "$log"
    touch "$target/.complete"
  fi
  exec 9>&-
  rm -f "$target.lock"
}

# version_at_least HAVE WANT
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# Versions of the unpacked servers in the cache, as 10.11.18-0+deb12u1, from new to old.
cached_servers() {
  local program
  for program in "$ATOLL_CACHE/mariadb-server-$MARIADB_SERIES."*/usr/sbin/mariadbd; do
    [ ! -e "$program" ] || printf '%s\n' "$program"
  done | sed -E 's|.*/mariadb-server-([^/]*)/usr/sbin/mariadbd$|\1|' | sort -Vr
}

# Prints the version of the cached server to use: the pinned version, otherwise the newest. Prints nothing
# when there is none; this is no failure.
cached_server() {
  local all pinned
  all=$(cached_servers)
  pinned=$(grep -m 1 -F "$MARIADB_VERSION-" <<<"$all" || true)
  printf '%s' "${pinned:-${all%%$'\n'*}}"
}

# 1:10.11.18-0+deb12u1 -> 10.11.18-0+deb12u1 (a name for files)
without_epoch() { printf '%s' "${1#*:}"; }

# 10.11.18-0+deb12u1 -> 10.11.18
upstream_version() { printf '%s' "${1%%-*}"; }

# The file with the server's own program: in its place may be a script that starts it by another loader.
mariadbd_file() {  # mariadbd_file USR
  if [ -e "$1/lib/programs/mariadbd" ]; then printf '%s' "$1/lib/programs/mariadbd"; else printf '%s' "$1/sbin/mariadbd"; fi
}

# The cache folders with the private headers and with the unpacked packages of the server of that version.
mariadb_dir() { printf '%s/mariadb-%s' "$ATOLL_CACHE" "$1"; }
mariadb_server_dir() { printf '%s/mariadb-server-%s' "$ATOLL_CACHE" "$1"; }
ROCKSDB_NAME=rocksdb-$ROCKSDB_VERSION-r$ROCKSDB_RECIPE-$ARCH
ROCKSDB_TSAN_NAME=$ROCKSDB_NAME-tsan
ROCKSDB_INSTRUMENTED_NAME=$ROCKSDB_NAME-instrumented
RUST_TSAN_NAME=rust-tsan-r$RUST_TSAN_RECIPE-$ARCH
MINIO_NAME=minio-$MINIO_VERSION
VERSITYGW_NAME=versitygw-$VERSITYGW_VERSION
python_name() { printf 'python-%s' "$(cat "$SETUP_DIR/requirements.txt" <(python3 -c 'import sys; print(sys.version)') | sha256sum | cut -c1-12)"; }
