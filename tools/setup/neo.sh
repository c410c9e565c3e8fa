#!/bin/bash
# Makes the environment of `make bench-neo`: NEO's programs and the Python 2.7 that they need, from
# neo-requirements.txt. Result: build/bin/neo leads to it.
#
# Debian 12 has no Python 2.7; this looks for one in PATH and among those of pyenv. It is not installed here.
. "$(dirname "$0")/common.sh"

VIRTUALENV=20.15.1  # the last that runs on Python 2.7

# Prints the path of a Python 2.7 that has pip; fails when there is none.
find_python() {
  local candidate
  for candidate in "$(command -v python2.7 || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/2.7*/bin/python2.7; do
    if [ -x "$candidate" ] && "$candidate" -m pip --version >/dev/null 2>&1; then
      printf '%s' "$candidate"
      return
    fi
  done
  return 1
}

python=$(find_python) || die "NEO needs Python 2.7 with pip, and none is here" \
  "it is looked for as python2.7 in PATH and in ~/.pyenv/versions; pyenv install 2.7.18 makes one"
target=$ATOLL_CACHE/neo-$(cat "$SETUP_DIR/neo-requirements.txt" <("$python" -c 'import sys; print(sys.version)') | sha256sum | cut -c1-12)
mkdir -p "$ATOLL_CACHE/log" "$ATOLL_ROOT/build/bin"

# A virtual environment cannot be moved, so it is made in place and becomes valid with its stamp.
exec 9>"$target.lock"
flock 9
if [ ! -f "$target/.complete" ]; then
  say "making the environment of NEO, $(basename "$target")"
  log=$ATOLL_CACHE/log/neo.log
  rm -rf "$target"
  : >"$log"
  run_logged "$log" "$python" -m pip install --disable-pip-version-check --no-input --target "$target.tool" "virtualenv==$VIRTUALENV"
  run_logged "$log" env PYTHONPATH="$target.tool" "$python" -m virtualenv --no-download "$target"
  run_logged "$log" "$target/bin/pip" install --disable-pip-version-check --no-input -r "$SETUP_DIR/neo-requirements.txt"
  rm -rf "$target.tool"
  touch "$target/.complete"
fi
exec 9>&-
rm -f "$target.lock"
ln -sfn "$target" "$ATOLL_ROOT/build/bin/neo"
