#!/bin/bash
# Makes the private headers of the installed MariaDB server: configures its source package with Debian's settings and
# generates the few headers a storage engine includes. No part of the server is compiled but the generator.
#
# Result: $ATOLL_CACHE/mariadb-<version>/{generated,include,sql,wsrep-lib}
. "$(dirname "$0")/common.sh"

# Not built, and some of them need packages of their own to be configured.
PLUGINS_OFF="COLUMNSTORE ROCKSDB MROONGA SPIDER CONNECT OQGRAPH S3 AWS_KEY_MANAGEMENT HASHICORP_KEY_MANAGEMENT
  CRACKLIB_PASSWORD_CHECK AUTH_GSSAPI AUTH_PAM SPHINX FEDERATED FEDERATEDX"

unpack_source() {  # unpack_source FROM WORK: WORK/source, with Debian's patches
  # Called in a condition, where bash ignores `set -e`: every step says itself that it failed.
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
  local source=$ATOLL_CACHE/mariadb-source-$(without_epoch "$version")
  run_logged "$log" unpack_source "$source" "$work"
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

version=$(installed_server)
[ -n "$version" ] || die "no MariaDB server is installed" "run tools/setup/system-packages.sh"
name=mariadb-$(without_epoch "$version")
[ -d "$ATOLL_CACHE/$name" ] && exit 0
[ -d "$ATOLL_CACHE/mariadb-source-$(without_epoch "$version")" ] ||
  die "the source of MariaDB $version is not in the cache" "run tools/setup/system-packages.sh"
provide "$name" make_headers
# 115 MB that nothing needs any more.
rm -rf "$ATOLL_CACHE/mariadb-source-$(without_epoch "$version")"
