#!/bin/bash
# Unpacks a MariaDB server with its tools, test suite and plugins into the cache, and makes its private
# headers. Nothing is installed. An installed server is not used or changed.
#
# A storage engine loads only into the server version for which it was compiled, and it needs headers that
# only the source package has. So this script takes the pinned version, or otherwise the newest one, of which
# all packages and the source can be downloaded and whose classes have the layout that the engine knows. If
# the cache has a server, the network is not used.
#
# With SERIES=11.8 it takes exactly the pinned version of that series, from Debian 13 (debian13/pool.sh).
#
# Result: $ATOLL_CACHE/mariadb-server-<version>/usr             the server; lib/<triplet> there has its libraries
#         $ATOLL_CACHE/mariadb-<version>/{generated,include,sql,wsrep-lib}   the headers
. "$(dirname "$0")/common.sh"
. "$SETUP_DIR/apt.sh"
. "$SETUP_DIR/debian13/pool.sh"

SERVER_PACKAGES="mariadb-server mariadb-server-core mariadb-client mariadb-client-core mariadb-backup mariadb-test
  mariadb-test-data mariadb-plugin-s3 mariadb-plugin-rocksdb libmariadb-dev"
# Libraries that these packages need, and that a minimal Debian with the build packages does not have.
LIBRARY_PACKAGES="libaio1 libnuma1 liburing2 libsnappy1v5 libpcre2-posix3"

# Plugins that are left out when the source is configured, because some of them would need further packages.
PLUGINS_OFF="COLUMNSTORE ROCKSDB MROONGA SPIDER CONNECT OQGRAPH S3 AWS_KEY_MANAGEMENT HASHICORP_KEY_MANAGEMENT
  CRACKLIB_PASSWORD_CHECK AUTH_GSSAPI AUTH_PAM SPHINX FEDERATED FEDERATEDX"

# ---- which version ---------------------------------------------------------------------------------

# Prints the Debian versions of the series in the package lists: the pinned version first, then from new to
# old.
candidates() {
  local all
  all=$(apt-cache "${APT_OPTIONS[@]}" madison mariadb-server | awk -F'|' '{gsub(/ /, "", $2); print $2}' |
    grep -E "^([0-9]+:)?$MARIADB_SERIES\." | sort -Vru || true)
  grep -F ":$MARIADB_VERSION-" <<<"$all" || true
  grep -vF ":$MARIADB_VERSION-" <<<"$all" || true
}

packages_dir() { printf '%s/mariadb-packages-%s' "$ATOLL_CACHE" "$(without_epoch "$1")"; }
source_dir() { printf '%s/mariadb-source-%s' "$ATOLL_CACHE" "$(without_epoch "$1")"; }

# fetch_version DEBIAN_VERSION: downloads packages and source into the cache. Returns false when one of them
# cannot be downloaded.
fetch_version() {
  local package packages=()
  for package in $SERVER_PACKAGES; do packages+=("$package=$1"); done
  # shellcheck disable=SC2086  # a list
  fetch_into "$(packages_dir "$1")" download "${packages[@]}" $LIBRARY_PACKAGES || return 1
  [ -d "$(mariadb_dir "$(without_epoch "$1")")" ] || fetch_into "$(source_dir "$1")" source --download-only "mariadb=$1"
}

choose_version() {
  local candidate tried=""
  for candidate in $(candidates); do
    tried="$tried $candidate"
    if ! fetch_version "$candidate"; then
      say "MariaDB $candidate cannot be fetched whole (packages and source), trying another one"
      continue
    fi
    version=$(without_epoch "$candidate")
    provide "mariadb-$version" make_headers
    if headers_fit "$(mariadb_dir "$version")" && vtables_fit "$(packages_dir "$version")"; then
      # Unpacked last, because an unpacked server in the cache means that all other steps have succeeded.
      provide "mariadb-server-$version" unpack_server
      rm -rf "$(packages_dir "$version")" "$(source_dir "$version")"
      return
    fi
    say "MariaDB $candidate has classes of a layout that Atoll does not know (engine/plugin/abi_check.cc), trying another one"
  done
  die "no MariaDB $MARIADB_SERIES can be fetched whole, packages and source, that Atoll knows" \
    "tried:${tried:- nothing, apt lists no mariadb-server $MARIADB_SERIES}" "details: $APT_LOG"
}

# As choose_version, for the version of Debian 13.
choose_debian13() {
  [ "$ARCH" = x86_64 ] || die "MariaDB $SERIES can be set up on x86_64 only"
  version=$MARIADB_VERSION-$MARIADB_DEBIAN_11_8
  fetch_debian13 || die "MariaDB $version cannot be fetched whole" "details: $APT_LOG"
  provide "mariadb-$version" make_headers
  headers_fit "$(mariadb_dir "$version")" && vtables_fit "$(packages_dir "$version")" ||
    die "MariaDB $version has classes of a layout that Atoll does not know" "see engine/plugin/abi_check.cc and $APT_LOG"
  provide "mariadb-server-$version" unpack_debian13
  rm -rf "$(packages_dir "$version")" "$(source_dir "$version")" "$(libraries_dir "$version")"
  "$(mariadb_server_dir "$version")/usr/sbin/mariadbd" --version >&2 || die "MariaDB $version does not run on this machine"
}

# ---- the server ------------------------------------------------------------------------------------

unpack_packages() {  # unpack_packages OUT LOG
  local package
  for package in "$(packages_dir "$version")"/*.deb; do
    run_logged "$2" dpkg-deb --extract "$package" "$1"
  done
  rm -rf "${1:?}"/{etc,var,lib,usr/share/doc,usr/share/man}
}

unpack_server() {  # unpack_server WORK OUT LOG
  local missing
  unpack_packages "$2" "$3"
  missing=$(libraries_missing "$2/usr")
  [ -z "$missing" ] || die "MariaDB $version needs libraries that are neither here nor unpacked: $missing"
}

unpack_debian13() {  # unpack_debian13 WORK OUT LOG
  local missing
  unpack_packages "$2" "$3"
  wrap_programs "$2" "$3"
  missing=$(libraries_missing_debian13 "$2/usr")
  [ -z "$missing" ] || die "MariaDB $version needs libraries that are not unpacked: $missing"
}

# libraries_missing USR: prints the names of the libraries that the programs and plugins we use would not
# find.
libraries_missing() {
  LD_LIBRARY_PATH=$1/lib/$ARCH-linux-gnu ldd "$1"/sbin/mariadbd "$1"/bin/{mariadb,mariadb-backup,mariadb-binlog,mariadb-test} \
    "$1"/lib/mysql/plugin/ha_{rocksdb,s3}.so | awk '/not found/ {print $1}' | sort -u | tr '\n' ' '
}

# ---- its headers -----------------------------------------------------------------------------------

unpack_source() {  # unpack_source FROM WORK: WORK/source, with Debian's patches
  # run_logged calls this function in a condition, where bash ignores `set -e`. So each step returns its
  # failure itself.
  local patch
  mkdir "$2/source" &&
    tar -xf "$1"/mariadb_*.orig.tar.gz -C "$2/source" --strip-components=1 &&
    tar -xf "$1"/mariadb_*.debian.tar.xz -C "$2/source" || return 1
  [ -f "$2/source/debian/patches/series" ] || return 0
  for patch in $(grep -vE '^\s*(#|$)' "$2/source/debian/patches/series"); do
    patch -d "$2/source" -p1 -s -f -i "$2/source/debian/patches/$patch" || return 1
  done
}

make_headers() {  # make_headers WORK OUT LOG
  local work=$1 out=$2 log=$3 plugin options=()
  run_logged "$log" unpack_source "$(source_dir "$version")" "$work"
  for plugin in $PLUGINS_OFF; do options+=("-DPLUGIN_$plugin=NO"); done
  # Unix Makefiles: this tree does not configure with Ninja. BUILD_CONFIG and DEB are Debian's own settings.
  run_logged "$log" cmake -S "$work/source" -B "$work/build" -G "Unix Makefiles" \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_CONFIG=mysql_release -DDEB=Debian \
    -DMYSQL_SERVER_SUFFIX="-${version##*-}" -DSYSTEM_TYPE=debian-linux-gnu -DCONC_DEFAULT_CHARSET=utf8mb4 \
    -DIGNORE_AIO_CHECK=ON -DWITH_JEMALLOC=no -DWITH_UNIT_TESTS=OFF -DWITH_MARIABACKUP=OFF \
    -DWITH_EMBEDDED_SERVER=OFF "${options[@]}"
  run_logged "$log" make -C "$work/build" -j"$(nproc)" GenError
  collect "$work" "$out"
}

collect() {  # collect WORK OUT
  local source=$1/source build=$1/build out=$2
  mkdir -p "$out/generated" "$out/sql" "$out/wsrep-lib/wsrep-API"
  (cd "$build/include" && cp my_config.h config.h mysql_version.h mysqld_error.h mysqld_ername.h sql_state.h \
    probes_mysql_nodtrace.h "$out/generated/")
  cp -r "$source/include" "$out/include"
  cp "$source"/sql/*.h "$out/sql/"
  cp -r "$source/wsrep-lib/include" "$out/wsrep-lib/include"
  cp -r "$source/wsrep-lib/wsrep-API/v26" "$out/wsrep-lib/wsrep-API/v26"
}

headers_fit() {  # headers_fit HEADERS: true when the engine's classes of the server have the sizes that it knows
  g++ -std=gnu++20 -fsyntax-only -w -O2 -DNDEBUG -DDBUG_OFF -D_FILE_OFFSET_BITS=64 -DHAVE_CONFIG_H -DMYSQL_DYNAMIC_PLUGIN \
    -DMYSQL_SERVER=1 -include "$ATOLL_ROOT/engine/base/namespace.h" -I"$ATOLL_ROOT/engine" -isystem "$1/wsrep-lib/include" \
    -isystem "$1/wsrep-lib/wsrep-API/v26" -isystem "$1/generated" -isystem "$1/include/providers" -isystem "$1/include" \
    -isystem "$1/sql" "$ATOLL_ROOT/engine/plugin/abi_check.cc" >>"$APT_LOG" 2>&1
}

# vtables_fit PACKAGES: true when the server's virtual tables have the sizes of the pinned version's. headers_fit
# does not check this, because a further virtual function does not change the size of a class.
vtables_fit() {
  local sizes server known="_ZTV4Item 0000000000000660 _ZTV5Field 0000000000000460 _ZTV7handler 0000000000000680 "
  [ "$SERIES" != 11.8 ] || known="_ZTV4Item 0000000000000680 _ZTV5Field 0000000000000478 _ZTV7handler 00000000000006a0 "
  [ "$ARCH" = x86_64 ] || return 0
  server=$(mktemp)
  dpkg-deb --fsys-tarfile "$1"/mariadb-server-core_*.deb | tar -xO ./usr/sbin/mariadbd >"$server"
  sizes=$(nm -DS "$server" | awk '$4 ~ /^_ZTV(4Item|5Field|7handler)$/ {print $4, $2}' | sort | tr '\n' ' ')
  rm -f "$server"
  [ "$sizes" = "$known" ]
}

version=$(cached_server)
if [ -n "$version" ] && [ -d "$(mariadb_dir "$version")" ]; then exit 0; fi
mkdir -p "$ATOLL_CACHE/log"
: >"$APT_LOG"
say "fetching MariaDB's packages and source (log: $APT_LOG)"
update_package_lists
if [ "$SERIES" = 11.8 ]; then choose_debian13; else choose_version; fi
