#!/bin/bash
# Makes the private tree in which MariaDB's test runner is started: links to the unpacked server, and the
# plugin.
#
#   tools/mtr-root.sh ROOT PLUGIN
#
# The private tree keeps the unpacked server unchanged, because the runner writes .reject files next to the
# results that it reads. The runner looks for bin/ above its folder and for plugins in lib/mysql/plugin, and
# exports $HA_ATOLL_SO if ha_atoll.so is there. Its folder is ROOT/share/mysql/mysql-test. Other suites can be
# put into suite/ there, in place of a link.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

root=$1
plugin=$2
server=$(readlink -f "$SERIES_BUILD/mariadb")
server_tests=$server/share/mysql/mysql-test
[ -d "$server_tests" ] || server_tests=$server/share/mariadb/mariadb-test  # where Debian 13 has them

link_all() {  # link_all FROM TO [NAME NOT TO LINK]
  local entry
  mkdir -p "$2"
  for entry in "$1"/*; do
    [ "$(basename "$entry")" = "${3:-}" ] || ln -sfn "$entry" "$2/"
  done
}

[ -d "$server_tests" ] || die "MariaDB's tests are not unpacked" "run: make setup"
rm -rf "$root"
mkdir -p "$root/share"
ln -s "$server/bin" "$root/bin"
link_all "$server/sbin" "$root/sbin"
[ ! -e "$server/share/mysql" ] || link_all "$server/share/mysql" "$root/share/mysql" mysql-test
[ ! -e "$server/share/mariadb" ] || ln -s "$server/share/mariadb" "$root/share/mariadb"
link_all "$server_tests" "$root/share/mysql/mysql-test" suite
link_all "$server_tests/suite" "$root/share/mysql/mysql-test/suite"
link_all "$server/lib/mysql/plugin" "$root/lib/mysql/plugin"
[ ! -e "$plugin" ] || ln -sfn "$plugin" "$root/lib/mysql/plugin/ha_atoll.so"
