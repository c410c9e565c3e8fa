#!/bin/bash
# Installs MariaDB, the build tools and sysbench (for the benchmarks) from Debian.
#
# A storage engine loads only into the exact server version it was compiled for, and it needs private headers that
# only the source package has. So this takes the newest version of which every binary package and the source can be
# fetched, and installs exactly that; an already installed newer server is replaced by it. When everything is in
# place, nothing is asked of the network.
. "$(dirname "$0")/common.sh"

SERVER_PACKAGES="mariadb-server mariadb-server-core mariadb-client mariadb-client-core mariadb-common mariadb-test
  mariadb-test-data mariadb-plugin-s3 mariadb-plugin-rocksdb libmariadb3 libmariadb-dev"
# The second half is what configuring MariaDB's source asks for.
BUILD_PACKAGES="g++ make cmake pkg-config perl ccache clang-format clang-tidy clang libclang-rt-14-dev libgtest-dev libgmock-dev
  libzstd-dev liblz4-dev zlib1g-dev libssl-dev patch xz-utils util-linux strace sysbench
  bison libncurses-dev libpcre2-dev libfmt-dev libedit-dev libaio-dev libsystemd-dev"
APT="DEBIAN_FRONTEND=noninteractive apt-get -q"

installed_version() { dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$1" 2>/dev/null | sed -n 's/^installed //p'; }

build_packages_missing() {
  local package
  for package in $BUILD_PACKAGES; do
    [ -n "$(installed_version "$package")" ] || printf '%s ' "$package"
  done
  # Debian's own Python comes without the part that makes virtual environments.
  python3 -c 'import venv, ensurepip' 2>/dev/null || printf 'python3-venv '
}

# True when all server packages have one and the same version of the right series, and its headers were made.
server_is_ready() {
  local version package
  version=$(installed_server)
  [[ $version == *:$MARIADB_SERIES.* ]] || return 1
  for package in $SERVER_PACKAGES; do
    [ "$(installed_version "$package")" = "$version" ] || return 1
  done
  [ -d "$(mariadb_dir "$version")" ]
}

# Package lists of the source packages, in a private folder: the system's own lists are left as they are.
source_options() {
  local dir=$ATOLL_CACHE/apt
  printf '%s\n' -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$dir/sources.d" \
    -o "Dir::State::lists=$dir/lists" -o APT::Sandbox::User= -o APT::Get::List-Cleanup=0
}

update_source_lists() {
  local dir=$ATOLL_CACHE/apt file log=$ATOLL_CACHE/log/apt.log
  rm -rf "$dir/sources.d"
  mkdir -p "$dir/sources.d" "$dir/lists/partial"
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -e "$file" ] && sed -E 's/^Types:.*/Types: deb-src/' "$file" >"$dir/sources.d/$(basename "$file")"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -e "$file" ] && sed -nE 's/^deb(-src)?[[:space:]]/deb-src /p' "$file" | sort -u >"$dir/sources.d/$(basename "$file" .list).list"
  done
  mapfile -t options < <(source_options)
  run_logged "$log" apt-get -q "${options[@]}" update
}

# fetch_source VERSION: the source package into the cache; false when it is not served.
fetch_source() {
  local name target
  name=mariadb-source-$(without_epoch "$1")
  target=$ATOLL_CACHE/$name
  [ -d "$target" ] && return 0
  mapfile -t options < <(source_options)
  rm -rf "$target.part"
  mkdir -p "$target.part"
  if (cd "$target.part" && apt-get -q "${options[@]}" source --download-only "mariadb=$1") >>"$ATOLL_CACHE/log/apt.log" 2>&1; then
    mv -T "$target.part" "$target"
  else
    rm -rf "$target.part"
    return 1
  fi
}

exact_packages() {
  local package
  for package in $SERVER_PACKAGES; do printf '%s=%s ' "$package" "$1"; done
}

# fetch_binaries VERSION: all packages into apt's archive; false when one of them is not served.
fetch_binaries() {
  # shellcheck disable=SC2046,SC2086
  as_root $APT install -y --no-install-recommends --allow-downgrades --download-only \
    $(exact_packages "$1") $BUILD_PACKAGES >>"$ATOLL_CACHE/log/apt.log" 2>&1
}

candidate_versions() {
  apt-cache madison mariadb-server | awk -F'|' '{gsub(/ /, "", $2); print $2}' | grep -E ":$MARIADB_SERIES\." | sort -Vru
}

choose_version() {
  local version tried=""
  for version in $(candidate_versions); do
    if fetch_source "$version" && fetch_binaries "$version"; then
      printf '%s' "$version"
      return
    fi
    say "$version cannot be fetched whole (packages and source), trying an older one"
    tried="$tried $version"
  done
  die "no MariaDB $MARIADB_SERIES of which packages and source can both be fetched" \
      "tried:${tried:- nothing, apt lists no mariadb-server $MARIADB_SERIES}" "details: $ATOLL_CACHE/log/apt.log"
}

# Packages may start services when installed; Atoll starts its own servers and wants no other one running.
install_without_services() {
  local policy=/usr/sbin/policy-rc.d made=""
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    made=yes
  fi
  # shellcheck disable=SC2086
  if ! as_root $APT install -y --no-install-recommends --allow-downgrades "$@" >>"$ATOLL_CACHE/log/apt.log" 2>&1 </dev/null; then
    [ -z "$made" ] || as_root rm -f "$policy"
    tail -n 30 "$ATOLL_CACHE/log/apt.log" >&2
    die "apt-get install failed" "the whole output is in $ATOLL_CACHE/log/apt.log"
  fi
  [ -z "$made" ] || as_root rm -f "$policy"
}

mkdir -p "$ATOLL_CACHE/log"
missing=$(build_packages_missing)
if server_is_ready && [ -z "$missing" ]; then exit 0; fi

: >"$ATOLL_CACHE/log/apt.log"
say "installing Debian packages (log: $ATOLL_CACHE/log/apt.log)"
# shellcheck disable=SC2086
run_logged "$ATOLL_CACHE/log/apt.log" as_root $APT update
if server_is_ready; then
  # shellcheck disable=SC2086
  install_without_services $missing
  exit 0
fi
update_source_lists
version=$(choose_version)
before=$(installed_server)
if [ -n "$before" ] && [ "$before" != "$version" ]; then
  say "replacing MariaDB $before by $version, the newest one whose source can be fetched"
fi
# shellcheck disable=SC2046,SC2086
install_without_services $(exact_packages "$version") $BUILD_PACKAGES $missing
say "MariaDB $version is installed"
