#!/bin/bash
# Sets up everything the build, the demo and the tests need. Safe to repeat: what is there is used.
#
#   tools/setup/all.sh        all of it; writes build/setup.env
#
# build/setup.env tells the other scripts where things are; build/mariadb leads to the server, build/bin to the S3
# servers and to the Python of the project, so that nobody needs to know the cache.
. "$(dirname "$0")/common.sh"

"$SETUP_DIR/prerequisites.sh"
"$SETUP_DIR/system-packages.sh"
"$SETUP_DIR/mariadb.sh"
"$SETUP_DIR/rocksdb.sh"
"$SETUP_DIR/s3-servers.sh"
"$SETUP_DIR/python.sh"

version=$(cached_server)
build=$ATOLL_ROOT/build
python=$ATOLL_CACHE/$(python_name)
mkdir -p "$build/bin" "$ATOLL_CACHE/bin"
ln -sfn "$(mariadb_server_dir "$version")/usr" "$build/mariadb"
ln -sfn "$ATOLL_CACHE/$MINIO_NAME/minio" "$build/bin/minio"
ln -sfn "$ATOLL_CACHE/$VERSITYGW_NAME/versitygw" "$build/bin/versitygw"
ln -sfn "../$MINIO_NAME/minio" "$ATOLL_CACHE/bin/minio"
ln -sfn "../$VERSITYGW_NAME/versitygw" "$ATOLL_CACHE/bin/versitygw"
# Not a link: a Python reached through a link does not find its environment.
printf '#!/bin/sh\nexec "%s/bin/python" "$@"\n' "$python" >"$build/bin/python"
chmod 755 "$build/bin/python"
cat >"$build/setup.env.new" <<END
MARIADB_PACKAGE=$version
MARIADB_VERSION=$(upstream_version "$version")
MARIADB_DIR=$(mariadb_dir "$version")
MARIADB_SERVER=$(mariadb_server_dir "$version")/usr
MARIADB_LIBRARIES=$(mariadb_server_dir "$version")/usr/lib/$ARCH-linux-gnu
ROCKSDB_DIR=$ATOLL_CACHE/$ROCKSDB_NAME
PYTHON_DIR=$python
END
if cmp -s "$build/setup.env.new" "$build/setup.env"; then
  rm "$build/setup.env.new"
else
  mv "$build/setup.env.new" "$build/setup.env"
fi
