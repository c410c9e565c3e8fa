#!/bin/bash
# Builds two independent S3 servers: versitygw for the demo and the tests, MinIO for the tests and the
# benchmarks.
#
#   tools/setup/s3-servers.sh minio|versitygw
#
# Result: $ATOLL_CACHE/minio-<version>/minio and $ATOLL_CACHE/versitygw-<version>/versitygw
. "$(dirname "$0")/common.sh"

install_go_binary() {  # install_go_binary OUT LOG MODULE@VERSION
  # Run in /, so that go finds no go.mod of the work tree or of a folder above it.
  (cd / && run_logged "$2" env CGO_ENABLED=0 GOFLAGS="-buildvcs=false" GOBIN="$1" \
    go install -ldflags="-s -w" "$3")
}

build_minio() { install_go_binary "$2" "$3" "$MINIO_MODULE@$MINIO_VERSION"; }
build_versitygw() { install_go_binary "$2" "$3" "$VERSITYGW_MODULE@$VERSITYGW_VERSION"; }

case ${1:-} in
  minio) provide "$MINIO_NAME" build_minio ;;
  versitygw) provide "$VERSITYGW_NAME" build_versitygw ;;
  *) die "unknown S3 server ${1:-}" "see the head of $0" ;;
esac
