#!/bin/bash
# Makes the Debian packages of what `make build` has built.
#
#   packages/build.sh [--version VERSION] [--output FOLDER] [--fast]
#
# Result, in build/packages by default:
#   mariadb-plugin-atoll_<version>+mdb<server version>_<architecture>.deb    the engine, for exactly one server version
#   atoll-tools_<version>_<architecture>.deb                                atollctl and atollctl-rows
#
# --version: another version than that in Cargo.toml (the tests make a newer package with it). --fast: compressed less.
#
# The bytes of a package depend only on the commit and on the built files: all files have the commit's time, the owner
# root and modes that stand here, and dpkg-deb compresses with one thread. SOURCE_DATE_EPOCH overrides the time.
. "$(dirname "${BASH_SOURCE[0]}")/../tools/setup/common.sh"

build=$ATOLL_ROOT/build
here=$ATOLL_ROOT/packages
output=$build/packages
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$ATOLL_ROOT/Cargo.toml" | head -n 1)
compression=(-Zxz -z6)
while [ $# -gt 0 ]; do
  case $1 in
    --version) version=$2; shift ;;
    --output) output=$2; shift ;;
    --fast) compression=(-Zgzip -z1) ;;
    *) die "unknown option $1" "see the head of $0" ;;
  esac
  shift
done
# Documents for users, which the package of the plugin has.
DOCUMENTS="applications atollctl check-table configuration conformance costs disasters glossary install isolation
  limitations monitoring operations providers readers start upgrade versions"
MAINTAINER="Atoll maintainers <maintainers@atoll.invalid>"

check_built() {
  local file
  [ "$SERIES_BUILD" = "$build" ] || die "there are no packages for MariaDB $SERIES yet"
  [ -f "$build/setup.env" ] || die "this machine is not set up" "run: make package"
  # shellcheck disable=SC1091
  . "$build/setup.env"
  for file in ha_atoll.so atollctl atollctl-rows; do
    [ -f "$build/$file" ] || die "build/$file is missing" "run: make package"
  done
}

# put MODE FROM TO: a file of the package, below $root.
put() { install -D -m "$1" "$2" "$root$3"; }

# fill FROM TO: a file of the package from a template.
fill() {
  mkdir -p "$(dirname "$2")"
  sed -e "s|@VERSION@|$package_version|g" -e "s|@ARCH@|$architecture|g" -e "s|@SERVER@|1:$MARIADB_PACKAGE|g" \
    -e "s|@MAINTAINER@|$MAINTAINER|g" -e "s|@LIBRARIES@|${libraries:-}|g" -e "s|@SIZE@|${size:-0}|g" \
    -e "s|@DATE@|$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)|g" "$1" >"$2"
}

# put_program FROM TO: a program as `make build` has made it, which is stripped. It is not stripped again here: the strip
# of Debian 12 then drops the read-only relocations (RELRO) of what Rust's linker has made.
put_program() {
  put 755 "$1" "$2"
  ! readelf -SW "$root$2" | grep -qE ' \.(symtab|debug_info) ' || die "$1 is not stripped" "run: make build"
}

# ---- what both packages have ------------------------------------------------------------------------

# begin NAME VERSION: an empty tree for a package.
begin() {
  name=$1 package_version=$2
  root=$work/$name
  mkdir -p "$root/DEBIAN" "$root/usr/share/doc/$name"
}

put_changelog() {
  local file=$root/usr/share/doc/$name/changelog
  printf '%s (%s) unstable; urgency=medium\n\n  * Built from the commit %s.\n    What changed: CHANGELOG.md.gz\n\n -- %s  %s\n' \
    "$name" "$package_version" "$commit" "$MAINTAINER" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$file"
  cp "$ATOLL_ROOT/CHANGELOG.md" "$root/usr/share/doc/$name/"
}

put_copyright() {  # put_copyright CRATE... [--rocksdb]
  python3 "$here/copyright.py" "$@" >"$root/usr/share/doc/$name/copyright"
}

# Prints the packages of the libraries that the programs need, with their least versions. The plugin also has symbols
# of the server, which no library has; dpkg-shlibdeps would warn about them.
needed_libraries() {  # needed_libraries FILE...
  mkdir -p "$work/libraries/debian"
  : >"$work/libraries/debian/control"
  (cd "$work/libraries" && dpkg-shlibdeps --warnings=0 -O "${@/#/-e}") 2>>"$work/libraries/log" |
    sed -n 's/^shlibs:Depends=//p'
}

compress_texts() {
  find "$root/usr/share/man" "$root/usr/share/doc/$name/changelog" "$root/usr/share/doc/$name/CHANGELOG.md" -type f \
    -exec gzip -9n {} +
}

# finish SCRIPT...: control files, modes and times; then the package itself.
finish() {
  local script
  compress_texts
  libraries=$(needed_libraries "${programs[@]}")
  [ -n "$libraries" ] || die "dpkg-shlibdeps failed" "$(tail -n 5 "$work/libraries/log")"
  (cd "$root" && find etc -type f 2>/dev/null | LC_ALL=C sort | sed 's|^|/|') >"$root/DEBIAN/conffiles" || true
  [ -s "$root/DEBIAN/conffiles" ] || rm "$root/DEBIAN/conffiles"
  (cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  for script in "$@"; do install -m 755 "$script" "$root/DEBIAN/${script##*/}"; done
  size=$(($(find "$root" -path "$root/DEBIAN" -prune -o -type f -printf '%s\n' | awk '{s += int(($1 + 1023) / 1024)} END {print s}')))
  fill "$here/$folder/control" "$root/DEBIAN/control"
  chmod -R u=rwX,go=rX "$root"
  find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  mkdir -p "$output"
  dpkg-deb --root-owner-group "${compression[@]}" --threads-max=1 --build "$root" "$output/${name}_${package_version}_$architecture.deb" >"$work/log"
  say "made ${output#"$ATOLL_ROOT"/}/${name}_${package_version}_$architecture.deb"
}

# ---- the packages ------------------------------------------------------------------------------------

put_documents() {
  local document target=/usr/share/doc/$name
  for document in $DOCUMENTS; do
    # Links to documents that the package lacks lose their target; the text stays.
    sed -E -e 's/\[([^]]*)\]\(((\.\.|internals|benchmarks|\.\.\/[^)]*)[^)]*)\)/\1/g' "$ATOLL_ROOT/docs/$document.md" \
      >"$root$target/$document.md"
  done
}

plugin_package() {
  begin mariadb-plugin-atoll "$version+mdb$MARIADB_VERSION"
  folder=plugin
  put_program "$build/ha_atoll.so" /usr/lib/mysql/plugin/ha_atoll.so
  chmod 644 "$root/usr/lib/mysql/plugin/ha_atoll.so"
  put 644 "$here/plugin/atoll.cnf" /etc/mysql/mariadb.conf.d/atoll.cnf
  put 644 "$here/plugin/apparmor" /etc/apparmor.d/abstractions/atoll
  put 644 "$here/plugin/systemd.conf" /usr/lib/systemd/system/mariadb.service.d/atoll.conf
  fill "$here/plugin/atoll.7" "$root/usr/share/man/man7/atoll.7"
  put_documents
  for file in atoll-alerts.yml atoll-dashboard.json; do
    put 644 "$here/monitoring/$file" "/usr/share/doc/$name/monitoring/$file"
  done
  put_changelog
  put_copyright objstore-ffi --rocksdb
  if [ -f "$here/plugin/lintian-overrides" ]; then
    put 644 "$here/plugin/lintian-overrides" "/usr/share/lintian/overrides/$name"
  fi
  programs=("$root/usr/lib/mysql/plugin/ha_atoll.so")
  finish "$here"/plugin/{postinst,prerm}
}

tools_package() {
  begin atoll-tools "$version"
  folder=tools
  put_program "$build/atollctl" /usr/bin/atollctl
  put_program "$build/atollctl-rows" /usr/bin/atollctl-rows
  mkdir -p "$root/usr/share/man/man1"
  "$build/atollctl" man "$root/usr/share/man/man1" >/dev/null
  fill "$here/tools/atollctl-rows.1" "$root/usr/share/man/man1/atollctl-rows.1"
  put_completions
  put 644 "$ATOLL_ROOT/docs/atollctl.md" "/usr/share/doc/$name/atollctl.md"
  put_changelog
  put_copyright atollctl --rocksdb
  if [ -f "$here/tools/lintian-overrides" ]; then
    put 644 "$here/tools/lintian-overrides" "/usr/share/lintian/overrides/$name"
  fi
  programs=("$root/usr/bin/atollctl" "$root/usr/bin/atollctl-rows")
  finish
}

put_completions() {
  local shell target
  for shell in bash:bash-completion/completions/atollctl zsh:zsh/vendor-completions/_atollctl \
    fish:fish/vendor_completions.d/atollctl.fish; do
    target=$root/usr/share/${shell#*:}
    mkdir -p "$(dirname "$target")"
    "$build/atollctl" completion "${shell%%:*}" >"$target"
  done
}

check_built
commit=$(git -C "$ATOLL_ROOT" rev-parse --short=12 HEAD)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$ATOLL_ROOT" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
architecture=$(dpkg --print-architecture)
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plugin_package
tools_package
