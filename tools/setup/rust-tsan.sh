#!/bin/bash
# Unpacks a Rust compiler with the sources of its standard library, which can then be built with
# instrumentation for ThreadSanitizer.
#
# The standard library must be instrumented. Otherwise the sanitizer does not see the synchronization inside a
# contended Mutex or at the drop of the last Arc, and reports races. Its sources must be those of the same
# compiler, and rustup's component with these sources is in no package registry. Debian has compiler and
# sources, for building browsers, and also the sanitizer's runtime. The packages are unpacked and not
# installed, so the machine's own Rust is not changed.
#
# Result: $ATOLL_CACHE/rust-tsan-r<recipe>-.../bin/{cargo,rustc,llvm-symbolizer}, of the newest version that
# Debian offers at that time. If Debian has no version that is new enough, there is no result, only a message.
. "$(dirname "$0")/common.sh"
. "$SETUP_DIR/apt.sh"

COMPILER_PACKAGES="rustc-web cargo-web libstd-rust-web-dev rust-web-src"
offered_version() { apt-cache "${APT_OPTIONS[@]}" policy rustc-web | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p'; }

# Prints the packages to download: the compiler's, and those of their libraries that this machine lacks.
packages_to_fetch() {
  # shellcheck disable=SC2086
  { printf '%s\n' $COMPILER_PACKAGES
    apt-get "${APT_OPTIONS[@]}" -s install --no-install-recommends $COMPILER_PACKAGES | awk '/^Inst / { print $2 }'; } | sort -u
}

fetch() {  # fetch WORK PACKAGE...
  (mkdir -p "$1/packages" && cd "$1/packages" && shift && apt-get -q "${APT_OPTIONS[@]}" download "$@")
}

unpack() {  # unpack WORK OUT PACKAGE PATTERN...: the files of a package that match
  local work=$1 out=$2 package=$3
  shift 3
  dpkg-deb --fsys-tarfile "$work/packages/${package}"_*.deb | tar -x -C "$out" --wildcards "$@"
}

# Makes a script in bin/ that starts a program with the path of its libraries and, for the compiler, of its
# standard library.
add_program() {  # add_program OUT NAME PATH [OPTION]
  local here="\$(dirname \"\$(dirname \"\$(readlink -f \"\$0\")\")\")"
  printf '#!/bin/sh\nhere=%s\nexport LD_LIBRARY_PATH="$here/usr/lib/%s-linux-gnu"\nexec "$here/%s" %s "$@"\n' \
    "$here" "$ARCH" "$3" "${4:-}" >"$1/bin/$2"
  chmod 755 "$1/bin/$2"
}

unpack_compiler() {  # unpack_compiler WORK OUT LOG
  local work=$1 out=$2 log=$3 package packages llvm libraries
  mapfile -t packages < <(packages_to_fetch)
  run_logged "$log" fetch "$work" "${packages[@]}"
  for package in "${packages[@]}"; do
    [ "$package" != rust-web-src ] || continue
    unpack "$work" "$out" "$package" './usr/*'
  done
  unpack "$work" "$out" rust-web-src './usr/lib/*' './usr/src/rustc-*/library/*'
  mkdir "$out/bin"
  # shellcheck disable=SC2016
  add_program "$out" rustc usr/bin/rustc '--sysroot "$here/usr"'
  add_program "$out" cargo usr/bin/cargo

  llvm=$("$out/bin/rustc" -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
  run_logged "$log" fetch "$work" "libclang-rt-$llvm-dev" "llvm-$llvm"
  unpack "$work" "$out" "libclang-rt-$llvm-dev" "*/libclang_rt.tsan-$ARCH.a"
  unpack "$work" "$out" "llvm-$llvm" "*/llvm-$llvm/bin/llvm-symbolizer"
  add_program "$out" llvm-symbolizer "usr/lib/llvm-$llvm/bin/llvm-symbolizer"
  # rustc looks for the sanitizer's runtime under this name.
  libraries=$("$out/bin/rustc" --print target-libdir)
  cp "$out/usr/lib/llvm-$llvm/lib/clang/$llvm/lib/linux/libclang_rt.tsan-$ARCH.a" "$libraries/librustc-stable_rt.tsan.a"
}

[ -d "$ATOLL_CACHE/$RUST_TSAN_NAME" ] && exit 0
update_package_lists
version=$(offered_version)
if ! version_at_least "${version:-0}" "$RUST_VERSION_MIN"; then
  say "Debian has no rustc-web of Rust $RUST_VERSION_MIN or newer here (${version:-none})"
  exit 0
fi
provide "$RUST_TSAN_NAME" unpack_compiler
