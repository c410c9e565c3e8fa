# shellcheck shell=bash disable=SC2154  # version is set by mariadb.sh
# Fetches a MariaDB of Debian 13, and the libraries of Debian 13 that it needs, on Debian 12. Source this file after
# common.sh and apt.sh.
#
# The package lists of Debian 13 only have its newest MariaDB, whose source Debian no longer serves. The files of
# the version that is pinned here are still in the pool. mariadb-<version>.sha256 names them with their checksums, so
# nothing has to be trusted that no list signs. The libraries come from the signed lists.

DEBIAN13_DIR=$SETUP_DIR/debian13
DEBIAN13_APT=$ATOLL_CACHE/apt-debian13
DEBIAN13_OPTIONS=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$DEBIAN13_APT/sources.d"
  -o "Dir::State::lists=$DEBIAN13_APT/lists" -o Dir::State::status=/dev/null -o "Dir::Cache=$DEBIAN13_APT/cache"
  -o APT::Sandbox::User= -o APT::Get::List-Cleanup=0)
# What the server, the clients and the plugins of the tests need, with all that these libraries need themselves.
DEBIAN13_LIBRARIES="libc6 libgcc-s1 libstdc++6 zlib1g libssl3t64 liburing2 libsystemd0 libcap2 libsnappy1v5 libpcre2-8-0
  libpcre2-posix3 libnuma1 liblz4-1 libcrypt1 libaio1t64 libzstd1 libtinfo6 libncurses6 liblzo2-2 liblzma5 libedit2
  libbsd0 libmd0 libbz2-1.0"

# Prints the addresses from which the machine gets Debian's packages.
debian_mirrors() {
  # shellcheck disable=SC2016  # names for apt
  apt-get "${APT_OPTIONS[@]}" indextargets --format '$(ORIGIN) $(SITE)' 'Created-By: Packages' | sed -n 's/^Debian //p' | sort -u
}

fetch_pool_file() {  # fetch_pool_file NAME SHA256
  local mirror
  for mirror in $(debian_mirrors); do
    if /usr/lib/apt/apt-helper download-file "${mirror%/}/pool/main/m/mariadb/$1" "$1" "SHA256:$2"; then return 0; fi
  done
  return 1
}

fetch_pool_files() {  # fetch_pool_files LIST SUFFIX...: those with one of these suffixes, into the present folder
  local list=$1 sum name suffix
  shift
  while read -r sum name; do
    for suffix in "$@"; do
      [[ $name != *"$suffix" ]] || fetch_pool_file "$name" "$sum" || return 1
    done
  done <"$list"
}

# Downloads packages, libraries and source of $version into the cache.
fetch_debian13() {
  local list=$DEBIAN13_DIR/mariadb-$MARIADB_VERSION.sha256 mirror
  mkdir -p "$DEBIAN13_APT/sources.d" "$DEBIAN13_APT/lists/partial" "$DEBIAN13_APT/cache/archives/partial"
  : >"$DEBIAN13_APT/sources.d/debian13.list"
  for mirror in $(debian_mirrors); do
    case $mirror in
      *-security*) ;;
      *) printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s trixie main\n' "$mirror" ;;
    esac
  done >"$DEBIAN13_APT/sources.d/debian13.list"
  run_logged "$APT_LOG" apt-get -q "${DEBIAN13_OPTIONS[@]}" update
  # shellcheck disable=SC2086  # a list
  fetch_with "$(libraries_dir "$version")" apt-get -q "${DEBIAN13_OPTIONS[@]}" download $DEBIAN13_LIBRARIES &&
    fetch_with "$(packages_dir "$version")" fetch_pool_files "$list" .deb || return 1
  [ -d "$(mariadb_dir "$version")" ] || fetch_with "$(source_dir "$version")" fetch_pool_files "$list" .tar.gz .tar.xz
}

libraries_dir() { printf '%s/mariadb-libraries-%s' "$ATOLL_CACHE" "$1"; }

# Makes the unpacked server in OUT run on Debian 12: its programs go to usr/lib/programs, and in their places are
# scripts that start them by the loader of Debian 13, with its libraries. These are in a folder of their own, because
# LD_LIBRARY_PATH, in which the server's folder of libraries is, also holds for programs of the machine.
wrap_programs() {  # wrap_programs OUT LOG
  local package program name usr
  usr=$(mariadb_server_dir "$version")/usr
  mkdir -p "$1/libraries" "$1/usr/lib/programs" "$1/usr/lib/debian13"
  for package in "$(libraries_dir "$version")"/*.deb; do
    run_logged "$2" dpkg-deb --extract "$package" "$1/libraries"
  done
  find "$1/libraries/usr/lib/$ARCH-linux-gnu" -maxdepth 1 -name '*.so*' -exec cp -d {} "$1/usr/lib/debian13/" \;
  rm -rf "${1:?}/libraries"
  find "$1"/usr/{bin,sbin,share} -type f -perm /111 -print0 | while IFS= read -r -d '' program; do
    [ "$(head -c 4 "$program" | tr -d '\0')" = $'\x7fELF' ] || continue
    name=$(basename "$program")
    mv "$program" "$1/usr/lib/programs/$name"
    cat >"$program" <<WRAPPER
#!/bin/sh
exec $usr/lib/debian13/ld-linux-x86-64.so.2 --argv0 "\$0" --library-path $usr/lib/debian13 $usr/lib/programs/$name "\$@"
WRAPPER
    chmod 755 "$program"
  done
}

# As libraries_missing in mariadb.sh, for programs that the loader of Debian 13 starts.
libraries_missing_debian13() {  # libraries_missing_debian13 USR
  local file
  for file in "$1"/lib/programs/{mariadbd,mariadb,mariadb-backup,mariadb-binlog,mariadb-test} "$1"/lib/mysql/plugin/ha_{rocksdb,spider}.so; do
    "$1/lib/debian13/ld-linux-x86-64.so.2" --library-path "$1/lib/debian13" --list "$file"
  done 2>&1 | awk '/not found/ {print $1}' | sort -u | tr '\n' ' '
}
