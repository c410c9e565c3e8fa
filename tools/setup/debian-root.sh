#!/bin/bash
# Makes what the tests of the packages need: the files of a clean Debian with MariaDB's server, and the packages of
# this server and of the newest one of its series. Nothing on the machine is changed. It needs root and the network,
# once per version.
#
#   tools/setup/debian-root.sh DEBIAN_VERSION       such as 10.11.18-0+deb12u1
#
# Prints the folder $ATOLL_CACHE/debian-root-r<recipe>-<version>, with
#   root.tar            a Debian 12 with mariadb-server of this version and what it needs, without package lists; systemd and apparmor are there to check files
#   pinned, newest      repositories with the packages of the server: of this version, and of the one that apt prefers
#   newest.version      the version in `newest`; the same one when Debian has no newer one
. "$(dirname "$0")/common.sh"
. "$SETUP_DIR/apt.sh"

version=$1
RECIPE=1
SUITE=bookworm
# What is installed of MariaDB in the root: a server, and what belongs to the same source.
PACKAGES="mariadb-server mariadb-server-core mariadb-client mariadb-client-core mariadb-common libmariadb3"

# Prints a sources.list with Debian's own package sources of the machine.
debian_sources() {
  # shellcheck disable=SC2016  # names for apt
  apt-get "${APT_OPTIONS[@]}" indextargets --format '$(ORIGIN) deb $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    sed -n 's/^Debian //p' | sort -u
}

newest_version() {
  apt-cache "${APT_OPTIONS[@]}" madison mariadb-server | awk -F'|' '{gsub(/ /, "", $2); print $2}' |
    grep -E "^[0-9]+:$MARIADB_SERIES\." | sort -Vr | head -n 1
}

repository() {  # repository FOLDER VERSION: the packages of the server, and an index of them
  local package wanted=()
  for package in $PACKAGES; do wanted+=("$package=$2"); done
  fetch_into "$1" download "${wanted[@]}" || die "Debian does not have the packages of MariaDB $2" "see $APT_LOG"
  (cd "$1" && dpkg-scanpackages --multiversion . >Packages) 2>>"$APT_LOG"
}

make_root() {  # make_root WORK OUT LOG
  local newest
  update_package_lists
  debian_sources >"$1/sources.list"
  newest=$(newest_version)
  repository "$2/pinned" "1:$version"
  repository "$2/newest" "$newest"
  without_epoch "$newest" >"$2/newest.version"
  # The whole source package is pinned, because mariadb-server alone would come with a newer core.
  printf 'Package: src:mariadb\nPin: version 1:%s\nPin-Priority: 1001\n' "$version" >"$1/pin"
  run_logged "$3" mmdebstrap --mode=root --variant=apt --aptopt='Apt::Install-Recommends "false"' \
    --setup-hook="mkdir -p \"\$1/etc/apt/preferences.d\" && cp '$1/pin' \"\$1/etc/apt/preferences.d/mariadb\"" \
    --customize-hook='rm "$1/etc/apt/preferences.d/mariadb" "$1"/etc/apt/sources.list.d/*' \
    --include=mariadb-server,procps,systemd,apparmor,ca-certificates "$SUITE" "$2/root.tar" "$1/sources.list"
}

[ "$(id -u)" = 0 ] || die "the files of a Debian can only be made by root" "run it as root, in a container for example"
name=debian-root-r$RECIPE-$version
mkdir -p "$ATOLL_CACHE/log"
provide "$name" make_root
printf '%s\n' "$ATOLL_CACHE/$name"
