#!/bin/bash
# Makes tools/setup/rocksdb-profile.tar.xz: how often each branch of RocksDB is taken while sysbench's scripts run on
# Atoll. The compiler lays out the library by it (tools/setup/rocksdb.sh). Needed again for another version of RocksDB, of
# the compiler, or other flags; it takes about ten minutes.
#
#   tools/rocksdb_profile.sh
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

profile=$SETUP_DIR/rocksdb-profile.tar.xz
counts=$(mktemp -d)
# shellcheck disable=SC2064  # the folder of now
trap "rm -rf '$counts'" EXIT

"$SETUP_DIR/rocksdb.sh" --instrumented
"$ATOLL_ROOT/tools/build.sh" --instrumented
# The server writes the counts when it ends.
GCOV_PREFIX=$counts ATOLL_PLUGIN=$ATOLL_ROOT/build/instrumented/ha_atoll.so \
  "$ATOLL_ROOT/build/bin/python" "$ATOLL_ROOT/bench/oltp.py" --quick --setups Atoll --threads 1 >/dev/null
[ -d "$counts/rocksdb-profile" ] || die "the server left no counts"
tar -C "$counts" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cJf "$profile" rocksdb-profile
say "made ${profile#"$ATOLL_ROOT"/}; raise ROCKSDB_RECIPE in tools/setup/versions.env, then run: make setup build"
