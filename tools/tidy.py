#!/usr/bin/env python3
"""Checks the rules of this code base that no formatter or compiler knows.

Usage: tools/tidy.py [--root DIR]

Every finding is one line, `file:line: rule: what is wrong; what to do instead`, and the exit status is 1 when there is
one. The rules for one file are the table RULES; check() lists those for the whole tree. Old violations are listed in
tools/tidy_ratchet.json with their size: they may shrink but not grow, and an entry that is no longer needed must be
removed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from source_text import Finding, Ratchet, Source
from tidy_names import commented_files, invariant_tests, named_files, rule_names
from tidy_types import type_sizes

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
FOLDER_FILES_MAX = 20

# The folders that each folder of engine/ may include. The table in ARCHITECTURE.md and engine/CMakeLists.txt
# must say the same, which layers() checks. No folder may include plugin/.
MAY_USE = {
    "base": set(),
    "codec": {"base"},
    "bridge": {"base"},
    "cloudfs": {"base", "bridge"},
    "lsm": {"base", "bridge", "cloudfs"},
    "txn": {"base", "lsm"},
    "catalog": {"base", "codec", "lsm"},
    "table": {"base", "codec", "catalog", "lsm", "txn"},
    "visitor": {"base", "bridge", "catalog", "codec", "lsm"},
    "engine": {"base", "bridge", "catalog", "lsm", "txn"},
    "handler": {"base", "codec", "catalog", "engine", "lsm", "table", "txn"},
    "plugin": {"base", "bridge", "codec", "catalog", "engine", "handler", "lsm", "table", "txn"},
}
SERVER_FOLDERS = {"handler", "plugin"}
ROCKSDB_FOLDERS = {"cloudfs", "lsm", "txn"}
OUTSIDE = {"MariaDB": SERVER_FOLDERS, "RocksDB": ROCKSDB_FOLDERS}
# Types of values in the interfaces of lsm and txn. Folders that use these interfaces may include their
# headers.
ROCKSDB_VALUES = {"rocksdb/iterator.h", "rocksdb/slice.h", "rocksdb/snapshot.h", "rocksdb/write_batch.h"}

SERVER_HEADER = re.compile(
    r"^(mysql(/|_|d|\.h)|maria|my_|m_ctype|m_string|sql_|sql_class|handler\.h|table\.h|field\.h|item|key\.h|log\.h|"
    r"lex_|opt_|rpl_|thr_|typelib|violite|wsrep|probes_|debug_sync|discover\.h|records\.h|unireg\.h|create_options)"
)

# Banned function -> what to use instead. Only calls are found, not names in comments or strings.
BANNED_CALLS = {
    "sprintf": "snprintf or std::string",
    "vsprintf": "vsnprintf",
    "strcpy": "std::string, or memcpy with a checked length",
    "strcat": "std::string",
    "gets": "std::getline",
    "atoi": "std::from_chars, which tells about errors",
    "atol": "std::from_chars, which tells about errors",
    "rand": "a std::mt19937_64 whose seed is printed",
    "srand": "a std::mt19937_64 whose seed is printed",
    "strtok": "std::string_view::find",
    "localtime": "localtime_r",
    "gmtime": "gmtime_r",
    "abort": "ATOLL_ASSERT with a reason, or a Status",
}


def file_length(source: Source, ratchet: Ratchet) -> Iterator[Finding]:
    size = len(source.lines)
    if size > FILE_LINES_MAX and not ratchet.allows(source.path, size):
        message = f"{size} lines, at most {FILE_LINES_MAX}; split it by what its parts do"
        yield Finding(source.path, 1, "file-length", message)


def function_length(source: Source, ratchet: Ratchet) -> Iterator[Finding]:
    for function in source.functions():
        size = function.last_line - function.first_line + 1
        key = f"{source.path}:{function.name}"
        if size > FUNCTION_LINES_MAX and not ratchet.allows(key, size):
            message = (
                f"{function.name} has {size} lines, at most {FUNCTION_LINES_MAX}; name its steps as functions"
            )
            yield Finding(source.path, function.first_line, "function-length", message)


def header_comment(source: Source, _: Ratchet) -> Iterator[Finding]:
    if source.has_own_header:
        return
    first = next((line for line in source.lines if line.strip() and not line.startswith("#!")), "")
    starts = {".rs": ("//!",), ".py": ('"""', "#"), ".sh": ("#",)}.get(source.suffix, ("//", "/*"))
    if source.suffix == ".rs" and first.startswith("#!["):
        return
    if not first.lstrip().startswith(starts):
        message = (
            f"no comment at the top; say in a sentence or two what the file is for, starting with {starts[0]}"
        )
        yield Finding(source.path, 1, "file-header", message)


def includes(source: Source, _: Ratchet) -> Iterator[Finding]:
    folder = source.folder
    if source.suffix not in (".cc", ".h") or folder not in MAY_USE:
        return
    for number, line in enumerate(source.lines, 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if match:
            problem = include_problem(folder, match.group(1), source.is_test)
            if problem:
                yield Finding(source.path, number, "include", problem)


def include_problem(folder: str, header: str, is_test: bool) -> str:
    top = header.split("/")[0]
    if top == "rocksdb" and folder not in ROCKSDB_FOLDERS and not is_test:
        if header in ROCKSDB_VALUES and "lsm" in MAY_USE[folder]:
            return ""
        owners = ", ".join(sorted(ROCKSDB_FOLDERS))
        return f"<{header}>: only {owners} see RocksDB; use txn/transaction.h, lsm/rows.h or lsm/family.h"
    if top in MAY_USE and "/" in header:
        if top != folder and top not in MAY_USE[folder] and not is_test:
            allowed = ", ".join(sorted(MAY_USE[folder])) or "nothing"
            return f"{folder}/ may include {allowed}; move the code, or pass what it needs as an argument"
    elif SERVER_HEADER.match(header) and folder not in SERVER_FOLDERS:
        return f"<{header}>: only handler/ and plugin/ see MariaDB; hide it behind an interface of {folder}/"
    return ""


def todo_form(source: Source, _: Ratchet) -> Iterator[Finding]:
    for number, line in enumerate(source.lines, 1):
        if source.path.startswith("tools/tidy"):
            return
        if re.search(r"\b(FIXME|XXX)\b", line):
            yield Finding(
                source.path, number, "todo", "FIXME and XXX do not stay; mend it, or write TODO(#issue): what"
            )
        elif re.search(r"\bTODO\b(?!\(#\d+\):)", line):
            yield Finding(
                source.path, number, "todo", "a TODO needs an issue; write TODO(#12): what is to be done"
            )


def banned_calls(source: Source, _: Ratchet) -> Iterator[Finding]:
    if source.suffix not in (".cc", ".h"):
        return
    pattern = re.compile(r"(?<![\w.>])(?:std::)?(" + "|".join(BANNED_CALLS) + r")\s*\(")
    for number, line in enumerate(source.code_lines, 1):
        for match in pattern.finditer(line):
            name = match.group(1)
            if name == "abort" and (source.is_test or source.path == "engine/base/border/assert.cc"):
                continue
            yield Finding(source.path, number, "banned-call", f"{name}(); use {BANNED_CALLS[name]}")


SERIES_FOLDER = "engine/handler/server/compat/"


def series_in_one_place(source: Source, _: Ratchet) -> Iterator[Finding]:
    """What differs between the series of MariaDB stands in one folder."""
    if source.path.startswith(SERIES_FOLDER) or source.path == "engine/plugin/abi_check.cc":
        return
    if source.suffix not in (".cc", ".h"):
        return
    for number, line in enumerate(source.code_lines, 1):
        if re.match(r"\s*#\s*(el)?if.*\bMYSQL_VERSION_ID\b", line):
            yield Finding(
                source.path,
                number,
                "series",
                f"a condition on MariaDB's version; put it into {SERIES_FOLDER}",
            )


def checked_mutexes(source: Source, _: Ratchet) -> Iterator[Finding]:
    """Clang's thread safety analysis does not work with the mutexes of the C++ library."""
    if source.suffix not in (".cc", ".h") or source.path == "engine/base/mutex.h":
        return
    pattern = re.compile(
        r"std::(shared_)?mutex|std::condition_variable|std::(lock_guard|unique_lock|shared_lock)"
    )
    for number, line in enumerate(source.code_lines, 1):
        if match := pattern.search(line):
            yield Finding(
                source.path, number, "mutex", f"{match.group()}; use what base/mutex.h has in its place"
            )


def sealed_lsm(source: Source, _: Ratchet) -> Iterator[Finding]:
    """No code outside of lsm/ has a pointer to a RocksDB database. Looks for symbols, because a pointer needs
    no include."""
    if source.folder not in MAY_USE or source.folder in {"lsm", "cloudfs"} or source.is_test:
        return
    for number, line in enumerate(source.lines, 1):
        if re.match(r'\s*#\s*include\s*"lsm/raw\.h"', line):
            yield Finding(source.path, number, "sealed-lsm", "lsm/raw.h is for lsm/ and for tests")
    for number, line in enumerate(source.code_lines, 1):
        if match := re.search(r"\brocksdb::(\w*DB)\b", line):
            message = f"{match.group()}: only lsm/ has RocksDB's databases; use lsm::Family or lsm::Rows"
            yield Finding(source.path, number, "sealed-lsm", message)


def pure_codec(source: Source, _: Ratchet) -> Iterator[Finding]:
    if source.folder != "codec" or source.is_test:
        return
    for number, line in enumerate(source.code_lines, 1):
        if re.search(r"\b(system_clock|steady_clock|time|getenv|fopen|random_device)\b\s*[(:]", line):
            message = "codec is pure (no clock, no files, no environment); take the value as a parameter"
            yield Finding(source.path, number, "pure-codec", message)


def unsafe_rust(source: Source, _: Ratchet) -> Iterator[Finding]:
    if source.suffix != ".rs" or source.path.startswith("crates/objstore-ffi/"):
        return
    for number, line in enumerate(source.code_lines, 1):
        if re.search(r"\bunsafe\b", line):
            message = "only crates/objstore-ffi may be unsafe; use a safe crate, or move the border there"
            yield Finding(source.path, number, "unsafe", message)


def dead_code(source: Source, _: Ratchet) -> Iterator[Finding]:
    if source.suffix not in (".cc", ".h"):
        return
    for number, line in enumerate(source.code_lines, 1):
        if re.match(r"\s*#\s*if\s+0\b", line):
            yield Finding(source.path, number, "dead-code", "#if 0; delete the code, the history keeps it")


def vague_file_name(source: Source, _: Ratchet) -> Iterator[Finding]:
    if Path(source.path).stem in {"utils", "util", "misc", "common", "helpers", "helper", "manager"}:
        allowed = {"tools/setup/common.sh"}
        if source.path not in allowed:
            yield Finding(source.path, 1, "file-name", "says nothing; name the file after the thing it holds")


RULES = (
    file_length,
    function_length,
    header_comment,
    includes,
    todo_form,
    banned_calls,
    series_in_one_place,
    checked_mutexes,
    sealed_lsm,
    pure_codec,
    unsafe_rust,
    dead_code,
    vague_file_name,
)


def layers(root: Path) -> Iterator[Finding]:
    """ARCHITECTURE.md and engine/CMakeLists.txt agree with MAY_USE, SERVER_FOLDERS and ROCKSDB_FOLDERS. The
    document leaves out base, which all folders use, and CMake the folder handler, which is no library."""
    document, build = root / "ARCHITECTURE.md", root / "engine" / "CMakeLists.txt"
    outside = {folder: {name for name, folders in OUTSIDE.items() if folder in folders} for folder in MAY_USE}
    if document.exists():
        shown = {
            folder: (MAY_USE[folder] - {"base"}) | outside[folder] for folder in MAY_USE if folder != "base"
        }
        row = r"\| `engine/(\w+)` \|.*\| ([^|]*) \|$"
        yield from compare_layers(document, "ARCHITECTURE.md", row, r"\w+", shown)
    if build.exists():
        linked = {folder: MAY_USE[folder] - {"handler"} for folder in MAY_USE}
        row = r"atoll_folder\((\w+)(?: SERVER)?(?: USES)?([^)]*)\)"
        yield from compare_layers(build, "engine/CMakeLists.txt", row, r"\batoll_(\w+)", linked)


def compare_layers(
    path: Path, name: str, row: str, word: str, expected: dict[str, set[str]]
) -> Iterator[Finding]:
    """Compares each line of `path` that matches `row` with `expected`. It names a folder and, as `word`s,
    what this may use."""
    missing = dict(expected)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(row, line)
        if not match:
            continue
        folder, used = match.group(1), set(re.findall(word, match.group(2))) - {"nothing"}
        wanted = missing.pop(folder, None)
        if wanted is not None and used != wanted:
            message = (
                f"{folder}/ uses {', '.join(sorted(wanted)) or 'nothing'} by tools/tidy.py; say the same here"
            )
            yield Finding(name, number, "layers", message)
    for folder in missing if len(missing) < len(expected) else ():
        yield Finding(name, 1, "layers", f"{folder}/ is missing; say what it uses")


def folder_sizes(sources: list[Source]) -> Iterator[Finding]:
    """No folder has too many files, because readers find a file by the names of folders."""
    files = Counter(str(Path(source.path).parent) for source in sources)
    for folder, count in files.items():
        if count > FOLDER_FILES_MAX:
            message = (
                f"{count} files, at most {FOLDER_FILES_MAX}; put those that belong together into a folder"
            )
            yield Finding(folder, 1, "folder-size", message)


# Headers of classes whose virtual functions the server or RocksDB calls, and the file with the classes derived from
# them that let no exception through (rule BORDER-1).
GUARDED_BY = {
    "engine/handler/ha_atoll.h": "engine/handler/server/guarded_handler.cc",
    "engine/cloudfs/cloud_file_system.h": "engine/cloudfs/guarded_files.h",
    "engine/cloudfs/written_file.h": "engine/cloudfs/guarded_files.h",
    "engine/cloudfs/table_reader.h": "engine/cloudfs/guarded_files.h",
}
# The members of a handlerton that are no function pointers.
HANDLERTON_DATA = {"savepoint_offset", "db_type", "flags", "tablefile_extensions", "table_options"}


GUARD = re.compile(r"guarded_(function|participant)<")


def guarded_borders(sources: list[Source]) -> Iterator[Finding]:
    """All functions that the server and RocksDB call are guarded or noexcept."""
    by_path = {source.path: source for source in sources}
    for header, guard in GUARDED_BY.items():
        if header not in by_path:
            continue
        guards = by_path[guard].code if guard in by_path else ""
        for number, name in throwing_overrides(by_path[header].code):
            if not re.search(rf"::{name}\(", guards):
                message = (
                    f"{name}() may throw into the server or RocksDB; guard it in {guard}, or make it noexcept"
                )
                yield Finding(header, number, "border", message)
    for source in sources:
        if source.folder not in SERVER_FOLDERS:
            continue
        for match in re.finditer(r"\bhton->(\w+)\s*=\s*(\S+)", source.code):
            if match.group(1) not in HANDLERTON_DATA and not GUARD.match(match.group(2)):
                number = source.code.count("\n", 0, match.start()) + 1
                guard = "guarded_function of handler/server/callback.h"
                message = f"{match.group(1)} may throw into the server; use {guard}"
                yield Finding(source.path, number, "border", message)


def throwing_overrides(code: str) -> Iterator[tuple[int, str]]:
    """Yields line and name of each function that is marked `override` and not `noexcept`."""
    for match in re.finditer(r"(?<![~\w])(\w+)\(([^;{}()]*)\)\s*(?:const\s*)?override\b", code):
        yield code.count("\n", 0, match.start()) + 1, match.group(1)


def sources_of(root: Path) -> list[Source]:
    patterns = (
        "engine/**/*.h",
        "engine/**/*.cc",
        "crates/**/*.rs",
        "bench/**/*.py",
        "demo/**/*.py",
        "packages/**/*.py",
        "packages/**/*.sh",
        "tests/**/*.py",
        "tools/**/*.py",
        "tools/**/*.sh",
    )
    paths = {path for pattern in patterns for path in root.glob(pattern) if "target" not in path.parts}
    return [
        Source(
            str(path.relative_to(root)),
            path.read_text(),
            path.with_suffix(".h") in paths and path.suffix == ".cc",
        )
        for path in sorted(paths)
    ]


def check(root: Path) -> list[Finding]:
    """Returns all findings in the tree at `root`, in the order of files and lines."""
    ratchet_file = root / "tools" / "tidy_ratchet.json"
    ratchet = Ratchet(json.loads(ratchet_file.read_text()) if ratchet_file.exists() else {})
    sources = sources_of(root)
    findings = [finding for source in sources for rule in RULES for finding in rule(source, ratchet)]
    findings += invariant_tests(root, sources)
    findings += named_files(root)
    findings += commented_files(root, sources)
    findings += rule_names(sources)
    findings += type_sizes(sources, ratchet)
    findings += layers(root)
    findings += guarded_borders(sources)
    findings += folder_sizes(sources)
    for key in ratchet.unused():
        findings.append(
            Finding("tools/tidy_ratchet.json", 1, "ratchet", f"{key} is within the limit now; remove it")
        )
    return sorted(findings, key=lambda finding: (finding.path, finding.line))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    findings = check(parser.parse_args().root)
    for finding in findings:
        print(finding)
    if findings:
        print(f"tidy: {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
