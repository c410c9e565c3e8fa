#!/bin/bash
# Makes sure that the compilers and libraries of the build are installed. The MariaDB server is not installed;
# mariadb.sh unpacks it.
#
#   tools/setup/system-packages.sh [--tests] [PACKAGE...]
#
# --tests: also the packages of the tests and of `make check`. PACKAGE: this one as well; the benchmarks need
# sysbench.
#
# As root it installs missing packages, which needs the network. As an ordinary user it installs nothing: it
# names the missing packages and prints the one command that root has to run. No installed package is
# upgraded, downgraded or removed.
. "$(dirname "$0")/common.sh"

# The last line has the packages that are needed to configure MariaDB's source.
BUILD_PACKAGES="g++ make cmake pkg-config perl ccache libzstd-dev liblz4-dev zlib1g-dev libssl-dev patch xz-utils util-linux
  bison libncurses-dev libpcre2-dev libfmt-dev libedit-dev libaio-dev libsystemd-dev"
TEST_PACKAGES="clang-format clang-tidy clang libclang-rt-14-dev libgtest-dev libgmock-dev strace"
LOG=$ATOLL_CACHE/log/packages.log
wanted=$BUILD_PACKAGES
if [ "${1:-}" = --tests ]; then
  shift
  wanted="$wanted $TEST_PACKAGES"
fi

is_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing_packages() {
  local package
  for package in $wanted "$@"; do
    is_installed "$package" || printf '%s ' "$package"
  done
  # Debian's python3 package lacks the modules that make virtual environments.
  python3 -c 'import venv, ensurepip' 2>/dev/null || printf 'python3-venv '
}

missing=$(missing_packages "$@")
[ -n "$missing" ] || exit 0
install="apt-get install -y --no-install-recommends --no-remove $missing"
if [ "$(id -u)" != 0 ]; then
  die "packages are missing, and installing them needs root rights: $missing" \
    "type once: sudo sh -c 'apt-get update && $install'"
fi
say "installing packages: $missing(log: $LOG)"
run_logged "$LOG" env DEBIAN_FRONTEND=noninteractive apt-get -q update
# shellcheck disable=SC2086  # words of a command
run_logged "$LOG" env DEBIAN_FRONTEND=noninteractive $install
