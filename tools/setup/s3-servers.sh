#!/bin/bash
# Builds two independent S3 servers for the demo, the tests and the benchmark: MinIO and versitygw.
# Result: $ATOLL_CACHE/minio-<version>/minio and $ATOLL_CACHE/versitygw-<version>/versitygw
. "$(dirname "$0")/common.sh"

install_go_binary() {  # install_go_binary OUT LOG MODULE@VERSION
  # Outside the work tree, so that no go.mod of ours or a parent folder is looked at.
  (cd / && run_logged "$2" env CGO_ENABLED=0 GOFLAGS="-buildvcs=false" GOBIN="$1" \
    go install -ldflags="-s -w" "$3")
}

build_minio() { install_go_binary "$2" "$3" "$MINIO_MODULE@$MINIO_VERSION"; }
build_versitygw() { install_go_binary "$2" "$3" "$VERSITYGW_MODULE@$VERSITYGW_VERSION"; }

provide "$MINIO_NAME" build_minio
provide "$VERSITYGW_NAME" build_versitygw
