#!/bin/bash
# Makes tools/setup/rocksdb-profile.tar.xz, a profile of how often each branch of RocksDB is taken while
# sysbench's scripts run with Atoll. The compiler uses the profile to arrange the library's code
# (tools/setup/rocksdb.sh). It must be made again for another version of RocksDB or of the compiler, or for
# other flags. This takes about ten minutes.
#
#   tools/rocksdb_profile.sh
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

profile=$SETUP_DIR/rocksdb-profile.tar.xz
counts=$(mktemp -d)
# shellcheck disable=SC2064  # expand the folder's name now, not at exit
trap "rm -rf '$counts'" EXIT

"$SETUP_DIR/rocksdb.sh" --instrumented
"$ATOLL_ROOT/tools/build.sh" --instrumented
# The instrumented server writes the counts when it ends.
GCOV_PREFIX=$counts ATOLL_PLUGIN=$ATOLL_ROOT/build/instrumented/ha_atoll.so \
  "$ATOLL_ROOT/build/bin/python" "$ATOLL_ROOT/bench/oltp.py" --quick --setups Atoll --threads 1 >/dev/null
[ -d "$counts/rocksdb-profile" ] || die "the server left no counts"
tar -C "$counts" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cJf "$profile" rocksdb-profile
say "made ${profile#"$ATOLL_ROOT"/}; raise ROCKSDB_RECIPE in tools/setup/versions.env, then run: make setup build"
