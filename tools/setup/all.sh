#!/bin/bash
# Sets up everything that the build, the demo and the tests need. It can be repeated: existing products are
# used.
#
#   tools/setup/all.sh        all of it; writes build/setup.env
#
# build/setup.env has the paths for the other scripts. build/mariadb is a link to the server, and build/bin
# has the S3 servers and the project's Python. So other scripts do not depend on the layout of the cache.
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
# A script and not a link, because a Python that is started through a link does not find its environment.
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
