#!/bin/bash
# Builds cargo-deny, which `make deny` runs. Result: $ATOLL_CACHE/cargo-deny-<version>/bin/cargo-deny
. "$(dirname "$0")/common.sh"

build_cargo_deny() {  # build_cargo_deny WORK OUT LOG
  (cd / && run_logged "$3" env CARGO_TARGET_DIR="$1/target" \
    cargo install --quiet --locked --root "$2" --version "$CARGO_DENY_VERSION" cargo-deny)
}

provide "cargo-deny-$CARGO_DENY_VERSION" build_cargo_deny
echo "$ATOLL_CACHE/cargo-deny-$CARGO_DENY_VERSION/bin/cargo-deny"
