#!/bin/bash
# Makes the Python environment of `make conformance-applications`: SQLAlchemy and Django as sources with their tests,
# and what the tests need. Result: the link build/bin/applications.
. "$(dirname "$0")/common.sh"

SOURCES="$(grep -Ei '^(sqlalchemy|django)==' "$SETUP_DIR/applications-requirements.txt")"

"$SETUP_DIR/system-packages.sh" libmariadb-dev pkg-config  # needed to compile mysqlclient
name=applications-$(cat "$SETUP_DIR/applications-requirements.txt" <(python3 --version) | sha256sum | cut -c1-12)

make_environment() {  # make_environment TARGET LOG
  local archive
  run_logged "$2" python3 -m venv "$1"
  run_logged "$2" "$1/bin/pip" install --disable-pip-version-check --no-input -r "$SETUP_DIR/applications-requirements.txt"
  mkdir "$1/archives" "$1/sources"
  # shellcheck disable=SC2086  # several words are meant
  run_logged "$2" "$1/bin/pip" download --disable-pip-version-check --no-input --no-deps --no-binary :all: \
    --dest "$1/archives" $SOURCES
  for archive in "$1"/archives/*.tar.gz; do tar -xzf "$archive" -C "$1/sources"; done
}

provide_in_place "$name" make_environment
mkdir -p "$ATOLL_ROOT/build/bin"
ln -sfn "$ATOLL_CACHE/$name" "$ATOLL_ROOT/build/bin/applications"
