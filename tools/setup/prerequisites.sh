#!/bin/bash
# Checks the machine's prerequisites for the build, and lists all missing ones at once.
. "$(dirname "$0")/common.sh"

problems=()

need_tool() {  # need_tool COMMAND VERSION_MIN VERSION_FOUND HOW_TO_GET_IT
  if ! command -v "$1" >/dev/null; then
    problems+=("$1 is missing: $4")
  elif [ -z "$3" ]; then
    problems+=("$1 is there but does not tell its version: $4")
  elif ! version_at_least "$3" "$2"; then
    problems+=("$1 $3 is too old, $2 or newer is needed: $4")
  fi
}

number_in() { grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1; }

check_system() {
  # shellcheck disable=SC1091
  local id=none release=none
  if [ -r /etc/os-release ]; then
    id=$(. /etc/os-release && printf '%s' "${ID:-none}")
    release=$(. /etc/os-release && printf '%s' "${VERSION_ID:-none}")
  fi
  if [ "$id" != debian ] || [ "$release" != 12 ]; then
    problems+=("this is $id $release; Atoll is built with packages of Debian 12 (bookworm)")
  fi
  case $ARCH in
    x86_64 | aarch64) ;;
    *) problems+=("$ARCH is not supported; x86_64 is tested, aarch64 is expected to work") ;;
  esac
}

check_tools() {
  need_tool cargo "$RUST_VERSION_MIN" "$(cargo --version 2>/dev/null | number_in)" \
    "install Rust $RUST_VERSION_MIN or newer with rustup"
  need_tool go "$GO_VERSION_MIN" "$(go version 2>/dev/null | number_in)" \
    "install Go $GO_VERSION_MIN or newer (it builds the S3 servers for demo and tests)"
  need_tool python3 "$PYTHON_VERSION_MIN" "$(python3 --version 2>/dev/null | number_in)" \
    "install Python $PYTHON_VERSION_MIN or newer"
}

check_space() {
  mkdir -p "$ATOLL_CACHE" || problems+=("$ATOLL_CACHE cannot be created; set XDG_CACHE_HOME to a writable folder")
  local folder free_mb
  # If the cache has RocksDB already, little more space is needed. Only without it is the full size demanded.
  [ -d "$ATOLL_CACHE/$ROCKSDB_NAME" ] && return
  for folder in "$ATOLL_CACHE" "$ATOLL_ROOT"; do
    free_mb=$(df -Pm "$folder" 2>/dev/null | awk 'NR==2 {print $4}')
    if [ -n "$free_mb" ] && [ "$free_mb" -lt "$DISK_MB_MIN" ]; then
      problems+=("$folder has $free_mb MB free; a first set-up needs $DISK_MB_MIN MB")
    fi
  done
}

check_system
check_tools
check_space
if [ "${#problems[@]}" -gt 0 ]; then
  die "this machine lacks something Atoll needs" "${problems[@]}"
fi
