# shellcheck shell=bash
# Downloads Debian packages into the cache as an ordinary user. Source this file after common.sh.
#
# apt keeps its lists, archive and log in folders below $ATOLL_CACHE/apt. No file of the system is written,
# and nothing is installed. Package sources, keys, pins and proxies are those of the machine.

APT_DIR=$ATOLL_CACHE/apt
APT_LOG=$ATOLL_CACHE/log/apt.log
APT_OPTIONS=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$APT_DIR/sources.d" -o "Dir::State::lists=$APT_DIR/lists"
  -o "Dir::Cache=$APT_DIR/cache" -o APT::Sandbox::User= -o APT::Get::List-Cleanup=0)

# Downloads the package lists of the machine's package sources, for binary and source packages. Dies when a
# source does not answer.
update_package_lists() {
  local file
  rm -rf "$APT_DIR/sources.d"
  mkdir -p "$APT_DIR/sources.d" "$APT_DIR/lists/partial" "$APT_DIR/cache/archives/partial"
  for file in /etc/apt/sources.list.d/*.sources; do
    [ ! -e "$file" ] || sed -E 's/^Types:.*/Types: deb deb-src/' "$file" >"$APT_DIR/sources.d/$(basename "$file")"
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ ! -e "$file" ] || sed -nE 's/^deb(-src)?[[:space:]](.*)/deb \2\ndeb-src \2/p' "$file" | sort -u \
      >"$APT_DIR/sources.d/$(basename "$file" .list).list"
  done
  run_logged "$APT_LOG" apt-get -q "${APT_OPTIONS[@]}" update
}

# fetch_into FOLDER COMMAND...: runs `apt-get COMMAND` in a new FOLDER; does nothing if FOLDER exists. Returns
# false, and leaves no folder, when apt cannot download everything.
fetch_into() {
  local target=$1
  shift
  fetch_with "$target" apt-get -q "${APT_OPTIONS[@]}" "$@"
}

# fetch_with FOLDER COMMAND...: as fetch_into, for any command.
fetch_with() {
  local target=$1
  shift
  [ ! -d "$target" ] || return 0
  rm -rf "$target.part"
  mkdir -p "$target.part"
  if (cd "$target.part" && "$@") >>"$APT_LOG" 2>&1 </dev/null; then
    mv -T "$target.part" "$target"
  else
    rm -rf "$target.part"
    return 1
  fi
}
