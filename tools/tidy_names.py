"""The rules of tools/tidy.py about names in text: each name of a test, a file or a rule in documents and comments
means something that exists, and one thing only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from source_text import Finding, Source

RULES_DOCUMENT = "docs/internals/rules.md"


def invariant_tests(root: Path, sources: list[Source]) -> Iterator[Finding]:
    """Each rule in docs/internals/rules.md names existing tests: a function, a file, or an MTR test."""
    document = root / RULES_DOCUMENT
    if not document.exists():
        return
    words = {word for source in sources for word in re.findall(r"\w+", source.text)}
    words |= {path.stem for path in (root / "mysql-test").glob("*/t/*.test")}
    for number, line in enumerate(document.read_text().splitlines(), 1):
        match = re.match(r"\| \*\*([A-Z]+-G?\d+)\*\* \|.*\|([^|]*)\|\s*$", line)
        if not match:
            continue
        names = re.findall(r"`([^`]+)`", match.group(2))
        if not names and "#" not in match.group(2):
            yield Finding(RULES_DOCUMENT, number, "invariant", f"{match.group(1)} names no test and no issue")
        for name in names:
            if re.split(r"[.:/]", name)[-1] not in words:
                message = f"{match.group(1)} names the test {name}, which is nowhere in the tree"
                yield Finding(RULES_DOCUMENT, number, "invariant", message)


def named_files(root: Path) -> Iterator[Finding]:
    """Each file that a document names in backquotes, with a folder, exists: at this path, or at a path that
    ends with it."""
    documents = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("*/README.md")]
    folders = [
        root / name
        for name in ("engine", "crates", "tools", "tests", "bench", "docs", "mysql-test", "fuzz", "packages")
    ]
    paths = {f"/{path.relative_to(root)}" for folder in folders for path in folder.rglob("*.*")}
    for document in documents:
        name = str(document.relative_to(root))
        for number, line in enumerate(document.read_text().splitlines(), 1):
            for named in re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:cc|h|rs|py|sh|lua))`", line):
                if not any(path.endswith(f"/{named}") for path in paths):
                    message = f"it names {named}, which is nowhere in the tree; say where it is now"
                    yield Finding(name, number, "named-file", message)


# Files of the server, of RocksDB and of the C library, which comments name as the source of a fact.
FOREIGN_FILE = re.compile(
    r"(sql|include|strings|storage|db)/[\w-]+\.(cc|h)|table/format\.(cc|h)|(my_config|stdlib)\.h"
)


def commented_files(root: Path, sources: list[Source]) -> Iterator[Finding]:
    """Each file that a comment names exists: with a folder, at a path that ends with it; else under this
    name in any folder."""
    folders = (
        "bench",
        "crates",
        "demo",
        "docs",
        "engine",
        "fuzz",
        "mysql-test",
        "packages",
        "tests",
        "tools",
    )
    found = [path for name in folders for path in (root / name).rglob("*.*")] + [*root.glob("*.*")]
    paths = {f"/{path.relative_to(root)}" for path in found if "target" not in path.parts}
    names = {path.rsplit("/", 1)[1] for path in paths}
    pattern = re.compile(r"(?<![\w/.<*{$-])((?:[\w.-]+/)*[\w-]+\.(?:cc|h|rs|py|sh|lua|test|md))\b(?![\w/(])")
    for source in sources:
        if source.path.startswith("tools/") and source.is_test:
            continue  # the trees that these tests build name files of their own
        for number, line in source.comments():
            for named in pattern.findall(line):
                is_there = named in names or ("/" in named and any(p.endswith(f"/{named}") for p in paths))
                if not is_there and not FOREIGN_FILE.fullmatch(named):
                    message = f"the comment names {named}, which is nowhere in the tree; say where it is now"
                    yield Finding(source.path, number, "commented-file", message)


def rule_names(sources: list[Source]) -> Iterator[Finding]:
    """A name like LOCK-1 means one rule: only one file defines it, and others may refer to it with "See"."""
    pattern = re.compile(r"\s*//[/!]?\s+([A-Z]+-G?\d+)(?::| {2,})\s*(?!See )\S")
    first: dict[str, Source] = {}
    for source in sources:
        if source.is_test or "/testing/" in source.path or source.path.startswith("crates/protocol-model/"):
            continue  # these files repeat the rules that they check
        for number, line in enumerate(source.lines, 1):
            if not (match := pattern.match(line)):
                continue
            owner = first.setdefault(match.group(1), source)
            if owner is not source:
                message = f"{match.group(1)} is a rule of {owner.path} already; a name means one rule"
                yield Finding(source.path, number, "rule-name", message)
