#!/bin/bash
# Says whether the installed MariaDB server can load the plugin that was built. Changes nothing, and always succeeds.
#
#   tools/installed-server.sh VERSION [MARIADBD]
#
# VERSION: the version for which the plugin was built, such as 10.11.18. MARIADBD: the server's program; by default
# the installed one. A server loads only a plugin that was built for exactly its own version. With another plugin its
# error log says "API version for STORAGE ENGINE plugin ATOLL not supported by this version of the server", and it
# does not start, because it does not know the plugin's settings.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

built_for=$1
program=${2:-$(PATH=$PATH:/usr/sbin command -v mariadbd || true)}
[ -n "$program" ] || exit 0
# For example: mariadbd  Ver 10.11.18-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)
installed=$("$program" --version 2>/dev/null | sed -n 's/.*Ver \([0-9.]*\).*/\1/p' || true)
if [ -z "$installed" ] || [ "$installed" = "$built_for" ]; then exit 0; fi
say "WARNING: the installed server $program is MariaDB $installed, and the plugin is built for $built_for."
say "  This server cannot load the plugin: it would say \"API version ... not supported\" and not start."
say "  Install MariaDB $built_for, and keep it (apt-mark hold mariadb-server mariadb-server-core), or build the plugin"
say "  for $installed: CONTRIBUTING.md, \"Another MariaDB patch release\"."
