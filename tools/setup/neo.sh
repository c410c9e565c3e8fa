#!/bin/bash
# Makes the Python environment of `make bench-neo`: NEO's programs, from neo-requirements.txt, with the Python
# 2.7 that they need. Result: the link build/bin/neo.
#
# Debian 12 has no Python 2.7. This script looks for one in PATH and in pyenv; it does not install one.
. "$(dirname "$0")/common.sh"

VIRTUALENV=20.15.1  # the last that runs on Python 2.7

"$SETUP_DIR/system-packages.sh" libmariadb-dev  # needed to compile mysqlclient

# Prints the path of a Python 2.7 with pip. Returns false when there is none.
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
name=neo-$(cat "$SETUP_DIR/neo-requirements.txt" <("$python" -c 'import sys; print(sys.version)') | sha256sum | cut -c1-12)

make_environment() {  # make_environment TARGET LOG
  run_logged "$2" "$python" -m pip install --disable-pip-version-check --no-input --target "$1.tool" "virtualenv==$VIRTUALENV"
  run_logged "$2" env PYTHONPATH="$1.tool" "$python" -m virtualenv --no-download "$1"
  run_logged "$2" "$1/bin/pip" install --disable-pip-version-check --no-input -r "$SETUP_DIR/neo-requirements.txt"
  rm -rf "$1.tool"
}

provide_in_place "$name" make_environment
mkdir -p "$ATOLL_ROOT/build/bin"
ln -sfn "$ATOLL_CACHE/$name" "$ATOLL_ROOT/build/bin/neo"
