#!/bin/bash
# Unpacks mysqld_exporter and promtool of Debian into the cache, for the tests of the alert rules and the dashboard.
# Nothing is installed, because the packages would start services.
#
# Result: $ATOLL_CACHE/bin/{prometheus-mysqld-exporter,promtool}
. "$(dirname "$0")/common.sh"
. "$SETUP_DIR/apt.sh"

name=monitoring-tools-debian12-r1

unpack_tools() {  # unpack_tools WORK OUT LOG
  local package
  update_package_lists
  fetch_into "$1/packages" download prometheus prometheus-mysqld-exporter ||
    die "Debian's packages of Prometheus cannot be fetched" "see $APT_LOG"
  for package in "$1"/packages/*.deb; do run_logged "$3" dpkg-deb --extract "$package" "$1/files"; done
  mv "$1"/files/usr/bin/{promtool,prometheus-mysqld-exporter} "$2"
}

mkdir -p "$ATOLL_CACHE/bin" "$ATOLL_CACHE/log"
provide "$name" unpack_tools
for tool in promtool prometheus-mysqld-exporter; do
  ln -sfn "../$name/$tool" "$ATOLL_CACHE/bin/$tool"
done
