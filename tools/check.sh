#!/bin/bash
# Formatters, linters and the rules of this code base.
#
#   tools/check.sh            reports findings, changes nothing; exit status 1 if there are any
#   tools/check.sh --fix      applies the formatters instead
#   tools/check.sh --quick    without clippy and clang-tidy (for a hook before each commit)
#   tools/check.sh --all      with clang-tidy for all files (make check-all)
#
# clang-tidy is slow, so it checks only the files that the last commit or uncommitted work has changed. With
# --all or CLANG_TIDY=all it checks all files, as `.ci/run --all` does once a day. It needs the compile
# commands of `make build`; without them it is left out, with a message.
. "$(dirname "${BASH_SOURCE[0]}")/setup/common.sh"

cd "$ATOLL_ROOT"
# shellcheck disable=SC1091
. build/setup.env
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$ATOLL_ROOT/build/cargo}
mode=${1:-}
[ "$mode" != --all ] || CLANG_TIDY=all
ruff=$PYTHON_DIR/bin/ruff
failed=()

# The C header objstore.h is left out, because its columns are aligned by hand, and a Rust test parses it.
cpp_files() { find engine \( -name '*.cc' -o -name '*.h' \) ! -path engine/bridge/objstore.h | sort; }
python_folders() { for folder in bench demo packages tests tools; do [ ! -d "$folder" ] || printf '%s ' "$folder"; done; }

step() {  # step NAME COMMAND...
  local name=$1 started=$SECONDS
  shift
  if "$@"; then say "$name: ok ($((SECONDS - started)) s)"; else say "$name: FAILED" && failed+=("$name"); fi
}

check_clang_format() {
  local file clean=0
  while read -r file; do
    clang-format --dry-run -Werror "$file" 2>/dev/null || { echo "$file: not formatted; run make fmt" && clean=1; }
  done < <(cpp_files)
  return "$clean"
}

# shellcheck disable=SC2046
check_ruff() { "$ruff" check --quiet $(python_folders) && "$ruff" format --check --quiet $(python_folders); }
# Checks the shared packages, and each program as a module of its own.
check_types() { "$PYTHON_DIR/bin/mypy" --config-file tools/mypy.ini -p harness -p common && "$PYTHON_DIR/bin/mypy" --config-file tools/mypy.ini {bench,demo,packages,tools}/*.py; }
check_shell() { "$PYTHON_DIR/bin/shellcheck" --severity=warning packages/*.sh packages/plugin/{postinst,prerm} tools/*.sh tools/setup/*.sh tools/setup/debian13/*.sh .ci/run; }

clippy() { cargo clippy --release --locked --workspace --all-targets --quiet -- -D warnings; }

changed_sources() {
  if [ "${CLANG_TIDY:-}" = all ]; then
    find engine -name '*.cc' | sort
  else
    { git diff --name-only HEAD; git diff --name-only HEAD~1 2>/dev/null; } | grep -E '^engine/.*\.cc$' | sort -u
  fi
}

check_clang_tidy() {
  local database=build/cmake/compile_commands.json files
  if [ ! -f "$database" ]; then
    say "clang-tidy: left out, there are no compile commands yet (make build)"
    return 0
  fi
  # The compile commands are for g++; clang does not know the flag -fno-gnu-unique.
  mkdir -p build/clang-tidy
  sed 's/ -fno-gnu-unique//g' "$database" >build/clang-tidy/compile_commands.json
  mapfile -t files < <(changed_sources | while read -r file; do [ ! -f "$file" ] || printf '%s\n' "$file"; done)
  [ "${#files[@]}" -gt 0 ] || return 0
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build/clang-tidy 2>/dev/null
}

if [ "$mode" = --fix ]; then
  cpp_files | xargs clang-format -i
  cargo fmt --all
  # shellcheck disable=SC2046
  "$ruff" check --quiet --fix $(python_folders) || true
  # shellcheck disable=SC2046
  "$ruff" format --quiet $(python_folders)
  exit 0
fi

step "rules of the code base (tools/tidy.py)" "$PYTHON_DIR/bin/python" tools/tidy.py
step "tests of the tools" "$PYTHON_DIR/bin/python" -m pytest -q tools/tidy_test.py tools/conformance/conformance_test.py bench/common/rig_test.py
step "clang-format" check_clang_format
step "cargo fmt" cargo fmt --all --check
step "ruff" check_ruff
step "mypy" check_types
step "shellcheck" check_shell
if [ "$mode" != --quick ]; then
  step "clippy" clippy
  step "clang-tidy" check_clang_tidy
fi
if [ "${#failed[@]}" -gt 0 ]; then
  say "check: ${#failed[@]} failed: ${failed[*]} (make fmt mends the formatting)"
  exit 1
fi
say "check: all passed"
