#!/usr/bin/env python3
"""Prints the file `copyright` of a package: the licences of Atoll and of all that is linked into its programs.

Usage: packages/copyright.py CRATE... [--rocksdb]

CRATE: the crates of this workspace that the package's programs are made of. --rocksdb: RocksDB is linked, too.

The crates that they bring with them come from Cargo.lock, by `cargo metadata` and `cargo tree`. Their texts come
from the crates' own files. Of several licences that a crate offers, the first one of CHOICE counts.

Errors: exits with a message when a crate offers no licence of CHOICE, or has no text of its licence and no names of
its authors.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLATFORM = "x86_64-unknown-linux-gnu"
# Licences under which a crate may be linked into a program under GPL-2.0-only (deny.toml), the preferred one first.
CHOICE = ("MIT", "ISC", "BSD-3-Clause", "BSL-1.0", "Unicode-3.0")
# How a file with the text of a licence is called, from specific to general.
TEXT_FILES = {
    "MIT": ("LICENSE-MIT*", "license-mit*", "LICENSE.MIT*", "LICENSES/MIT*"),
    "ISC": ("LICENSE-ISC*",),
    "BSL-1.0": ("LICENSE-BOOST*",),
    "Unicode-3.0": ("LICENSE-UNICODE*",),
}
ANY_TEXT_FILES = ("LICENSE", "LICENSE.*", "LICENCE*", "license*", "COPYING*", "COPYRIGHT*")
WIDTH = 110


@dataclass(frozen=True)
class Crate:
    name: str
    version: str
    licence: str
    text: str  # empty: the crate has no file with it
    holders: tuple[str, ...]

    def line(self) -> str:
        return f"{self.name} {self.version}"


def stop(message: str) -> None:
    sys.exit(f"atoll: ERROR: {message}")


def cargo(*arguments: str) -> str:
    command = ["cargo", *arguments, "--locked", "--color", "never"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(crates: list[str]) -> set[tuple[str, str]]:
    """Returns names and versions of the crates that are compiled into these crates of the workspace. Crates with
    procedural macros are among them, because they generate code."""
    chosen = [word for crate in crates for word in ("-p", crate)]
    tree = cargo("tree", *chosen, "-e", "normal", "--target", PLATFORM, "--prefix", "none", "-f", "{p}")
    return {(name, version) for name, version in re.findall(r"^([\w-]+) v(\S+)", tree, re.MULTILINE)}


def chosen_licence(name: str, expression: str) -> str:
    """Returns the licence of CHOICE for an expression such as `MIT OR Apache-2.0`. What AND joins counts whole."""
    parts = [part.strip(" ()") for part in re.split(r"\bAND\b", expression.replace("/", " OR "))]
    found = []
    for part in parts:
        offered = [word.strip(" ()") for word in re.split(r"\bOR\b", part)]
        match = next((licence for licence in CHOICE if licence in offered), None)
        if match is None:
            stop(f"the crate {name} offers no licence that fits: {expression}")
        found.append(str(match))
    return " and ".join(found)


def licence_text(folder: Path, licence: str) -> str:
    patterns = [pattern for part in licence.split(" and ") for pattern in TEXT_FILES.get(part, ())]
    texts = []
    for pattern in (*patterns, *ANY_TEXT_FILES):
        files = sorted(path for path in folder.glob(pattern) if path.is_file())
        texts += [path.read_text(errors="replace") for path in files if "APACHE" not in path.name.upper()]
        if texts and (pattern not in patterns or " and " not in licence):
            break
    return "\n\n".join(dict.fromkeys(tidied(without_apache(text)) for text in texts[:2]))


def without_apache(text: str) -> str:
    """Returns the text without the whole Apache-2.0 licence, which some crates print behind the one that counts."""
    return re.sub(r"\n\[?2?\]?:?[^\n]*\n[~\s]*Apache License\n\s*Version 2\.0.*", "", text, flags=re.DOTALL)


def tidied(text: str) -> str:
    """Returns the text with lines of one form, so that the same text of two crates is printed once."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\f", "").strip().split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def crates_of(wanted: set[tuple[str, str]]) -> list[Crate]:
    found = []
    for package in json.loads(cargo("metadata", "--format-version", "1"))["packages"]:
        if (package["name"], package["version"]) not in wanted or package["source"] is None:
            continue
        licence = chosen_licence(package["name"], package["license"] or "")
        text = licence_text(Path(package["manifest_path"]).parent, licence)
        if licence == "MIT" and "Permission is hereby granted" not in text:
            text = ""  # that of another licence which the crate offers
        holders = tuple(re.sub(r"\s*<[^>]*>", "", author) for author in package["authors"])
        found.append(Crate(package["name"], package["version"], licence, text, holders))
    return sorted(found, key=lambda crate: (crate.name, crate.version))


def split_notices(text: str) -> tuple[str, str]:
    """Returns the copyright notices at the top of a licence, and its terms. Crates share the terms, not the notices."""
    lines = text.split("\n")
    notices = [line.strip() for line in lines[:12] if re.match(r"\s*(copyright|\(c\))", line, re.IGNORECASE)]
    terms = [line for number, line in enumerate(lines) if number >= 12 or line.strip() not in notices]
    return "\n".join(notices), tidied("\n".join(terms))


def indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.split("\n"))


def standard_terms(crates: list[Crate], licence: str) -> str:
    """Returns the terms that most crates of this licence have, for those that have no text of their own."""
    terms = [split_notices(crate.text)[1] for crate in crates if crate.licence == licence and crate.text]
    if not terms:
        stop(f"no crate has a text of the licence {licence}")
    return max(sorted(set(terms)), key=terms.count)


def print_crates(crates: list[Crate]) -> None:
    """Prints each different text once, below the crates that have it and their notices."""
    groups: dict[tuple[str, str], list[tuple[Crate, str]]] = defaultdict(list)
    for crate in crates:
        notices, terms = split_notices(crate.text)
        terms = terms or standard_terms(crates, crate.licence)
        if not notices and not crate.holders:
            notices = f"Copyright The {crate.name} authors"
        notices = notices or f"Copyright {', '.join(crate.holders)}"
        groups[crate.licence, " ".join(terms.split())].append((crate, notices))
    texts = {" ".join(split_notices(crate.text)[1].split()): split_notices(crate.text)[1] for crate in crates}
    for (licence, key), members in sorted(groups.items(), key=lambda item: (item[0][0], item[1][0][0].name)):
        print(f"\n{'-' * WIDTH}\nCrates under the licence {licence}:\n")
        for crate, notices in members:
            print(f"{crate.line()}\n{indented(notices)}")
        print(f"\n{indented(texts[key])}")


def print_rocksdb() -> None:
    manifest = ROOT / "tools/setup/rocksdb-source/Cargo.toml"
    found = json.loads(cargo("metadata", "--format-version", "1", "--manifest-path", str(manifest)))
    package = next(package for package in found["packages"] if package["name"] == "librocksdb-sys")
    source = Path(package["manifest_path"]).parent / "rocksdb"
    print(f"\n{'-' * WIDTH}\nRocksDB {package['version'].partition('+')[2]}, linked into the program\n")
    print("  Copyright (c) 2011-present, Facebook, Inc.  All rights reserved.")
    print(
        "  Parts of it: Percona and/or its affiliates, Intel Corporation, Arm Limited, International Business"
    )
    print("  Machines Corp., Red Hat, Inc.")
    print(
        "\nRocksDB may be used under GPL-2 or Apache-2.0; here it is used under GPL-2. Parts of it come from LevelDB:\n"
    )
    print(indented(tidied((source / "LICENSE.leveldb").read_text(errors="replace"))))
    print("\nIt contains the hash function xxHash:\n")
    notice = re.search(
        r"^/\*\n( \* xxHash.*?)^ \*/", (source / "util/xxhash.h").read_text(), re.MULTILINE | re.DOTALL
    )
    if notice is None:
        stop("util/xxhash.h of RocksDB has no notice at its top any more")
    else:
        print(indented(tidied(re.sub(r"^ \* ?", "", notice.group(1), flags=re.MULTILINE))))


def print_head(rocksdb: bool) -> None:
    print("Atoll, a storage engine for MariaDB\n\n  Copyright (C) 2026 the Atoll maintainers\n")
    print(
        "Atoll is free software under version 2 of the GNU General Public License (GPL-2.0-only), without any warranty."
    )
    print("On Debian systems the text of this licence is in /usr/share/common-licenses/GPL-2.\n")
    if rocksdb:
        print(
            "The engine is compiled with header files of MariaDB (GPL-2), whose code parts are compiled into it:\n"
        )
        print(
            "  Copyright (c) 2000-2025 Oracle Corporation, MariaDB Corporation, MariaDB Foundation and others\n"
        )
    print(
        "The programs contain the libraries below, and parts of Rust's standard library, which is used under MIT:\n"
    )
    print("  Copyright (c) The Rust Project Developers")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("crates", nargs="+")
    parser.add_argument("--rocksdb", action="store_true")
    arguments = parser.parse_args()
    print_head(arguments.rocksdb)
    if arguments.rocksdb:
        print_rocksdb()
    print_crates(crates_of(linked(arguments.crates)))


if __name__ == "__main__":
    main()
