#!/bin/bash
# Sets up what the build, the demo and the tests need. It can be repeated: existing products are used.
#
#   tools/setup/all.sh [build|demo|test]    what `make build`, `make demo` or everything (the default) needs
#
# Before each product that is missing it says how long this product and all later ones take on 2 cores.
#
# SERIES=11.8 before the command means that series of MariaDB; setup.env and the link to the server are in build/11.8
# then.
#
# It writes build/setup.env, the paths for the other scripts. build/mariadb is a link to the server, and
# build/bin has the S3 servers and the project's Python. So other scripts do not depend on the layout of the
# cache.
. "$(dirname "$0")/common.sh"

wanted=${1:-test}
case $wanted in
  build | demo | test) ;;
  *) die "unknown purpose $wanted" "see the head of $0" ;;
esac

# The products that are missing, in their order: seconds, script, name.
seconds=()
scripts=()
names=()
want() {  # want NAME SECONDS PRODUCT SCRIPT: notes a product that is missing in the cache
  [ ! -e "$ATOLL_CACHE/$3" ] || return 0
  names+=("$1") seconds+=("$2") scripts+=("$4")
}

# The seconds are those of one cold run on 2 cores that did nothing else.
plan() {
  local version
  version=$(cached_server)
  want "MariaDB" 100 "mariadb-server-${version:-none}" mariadb.sh
  want "RocksDB" 330 "$ROCKSDB_NAME" rocksdb.sh
  [ "$wanted" != build ] || return 0
  want "Python packages" 25 "$(python_name)/.complete" python.sh
  want "the S3 server versitygw" 90 "$VERSITYGW_NAME" "s3-servers.sh versitygw"
  [ "$wanted" = test ] || return 0
  want "the S3 server MinIO" 150 "$MINIO_NAME" "s3-servers.sh minio"
}

# The seconds of the steps from number $1 on, and those of the build that follows.
seconds_left() {
  local sum=0 i
  [ -e "$ATOLL_ROOT/build/ha_atoll.so" ] || sum=270
  for ((i = $1; i < ${#seconds[@]}; i++)); do sum=$((sum + seconds[i])); done
  printf '%s' "$sum"
}

minutes() { if [ "$1" -lt 90 ]; then printf 'about %s s' "$1"; else printf 'about %s min' $((($1 + 30) / 60)); fi; }

run_plan() {
  local i words
  for ((i = 0; i < ${#names[@]}; i++)); do
    say "set-up, step $((i + 1)) of ${#names[@]}: ${names[i]}, $(minutes "${seconds[i]}"); with it and the build $(minutes "$(seconds_left "$i")") are left"
    read -ra words <<<"${scripts[i]}"
    "$SETUP_DIR/${words[0]}" "${words[@]:1}"
  done
}

write_links() {
  local build=$ATOLL_ROOT/build python server
  mkdir -p "$build/bin" "$SERIES_BUILD" "$ATOLL_CACHE/bin"
  ln -sfn "$(mariadb_server_dir "$version")/usr" "$SERIES_BUILD/mariadb"
  for server in "$MINIO_NAME/minio" "$VERSITYGW_NAME/versitygw"; do
    [ -e "$ATOLL_CACHE/$server" ] || continue
    ln -sfn "$ATOLL_CACHE/$server" "$build/bin/${server##*/}"
    ln -sfn "../$server" "$ATOLL_CACHE/bin/${server##*/}"
  done
  # A script and not a link, because a Python that is started through a link does not find its environment.
  python=$ATOLL_CACHE/$(python_name)
  printf '#!/bin/sh\nexec "%s/bin/python" "$@"\n' "$python" >"$build/bin/python"
  chmod 755 "$build/bin/python"
}

write_paths() {
  local file=$SERIES_BUILD/setup.env
  cat >"$file.new" <<END
MARIADB_PACKAGE=$version
MARIADB_VERSION=$(upstream_version "$version")
MARIADB_DIR=$(mariadb_dir "$version")
MARIADB_SERVER=$(mariadb_server_dir "$version")/usr
MARIADB_LIBRARIES=$(mariadb_server_dir "$version")/usr/lib/$ARCH-linux-gnu
ROCKSDB_DIR=$ATOLL_CACHE/$ROCKSDB_NAME
PYTHON_DIR=$ATOLL_CACHE/$(python_name)
END
  if cmp -s "$file.new" "$file"; then rm "$file.new"; else mv "$file.new" "$file"; fi
}

"$SETUP_DIR/prerequisites.sh"
if [ "$wanted" = test ]; then
  "$SETUP_DIR/system-packages.sh" --tests
else
  "$SETUP_DIR/system-packages.sh"
fi
plan
run_plan
version=$(cached_server)
write_links
write_paths
