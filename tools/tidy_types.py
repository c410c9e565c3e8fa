"""The limits of tools/tidy.py on types: how many functions one has, and over how many files they are spread.

A limit on files alone does not keep a type small: it goes on in the next file. Counted are functions that are
defined outside of the class in C++, and those of inherent `impl` blocks in Rust; implementations of traits are
not, because the trait asks for them. Tests, fakes and the simulation do not count.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from source_text import Finding, Ratchet, Source, closing_brace, line_of

TYPE_FUNCTIONS_MAX = 40
TYPE_FILES_MAX = 3

IMPL = re.compile(r"^impl(?:<[^>{]*>)?\s+(?:\w+::)*(\w+)(?:<[^{]*>)?\s*(?:where[^{]*)?\{", re.MULTILINE)


def members(source: Source) -> Iterator[tuple[str, int, int]]:
    """Yields, for each part of a type in `source`: the name of the type, the line of the first function, and
    how many functions there are."""
    if source.suffix == ".rs":
        for match in IMPL.finditer(source.code):
            body = source.code[match.end() : closing_brace(source.code, match.end() - 1)]
            if count := len(re.findall(r"\bfn\s+\w+", body)):
                yield match.group(1), line_of(source.code, match.start()), count
    elif source.suffix in (".cc", ".h"):
        for function in source.functions():
            if "::" in function.name:
                yield function.name.rsplit("::", 1)[0], function.first_line, 1


def is_product(source: Source) -> bool:
    parts = source.path.split("/")
    return (
        parts[0] in ("engine", "crates")
        and len(parts) > 2
        and not source.is_test
        and not {"testing", "sim", "protocol-model"} & set(parts)
    )


def folder_of(source: Source) -> str:
    """The folder of engine/, or the crate."""
    return "/".join(source.path.split("/")[:2])


def type_sizes(sources: list[Source], ratchet: Ratchet) -> Iterator[Finding]:
    """No type has too many functions, or is spread over too many files. An exception is listed as
    `engine/txn:Name:functions` or `...:files`."""
    functions: dict[str, int] = defaultdict(int)
    places: dict[str, dict[str, int]] = defaultdict(dict)
    product = [source for source in sources if is_product(source)]
    # Rust modules may each have a private type of the same name.
    homes: dict[str, set[str]] = defaultdict(set)
    for source in product:
        for name in re.findall(r"\b(?:struct|enum)\s+(\w+)", source.code if source.suffix == ".rs" else ""):
            homes[f"{folder_of(source)}:{name}"].add(source.path)
    for source in product:
        for name, line, count in members(source):
            key = f"{folder_of(source)}:{name}"
            if len(homes[key]) > 1 and source.path in homes[key]:
                key = f"{source.path}:{name}"
            functions[key] += count
            places[key].setdefault(source.path, line)
    for key, count in functions.items():
        path, line = min(places[key].items())
        name = key.split(":", 1)[1]
        if count > TYPE_FUNCTIONS_MAX and not ratchet.allows(f"{key}:functions", count):
            message = f"{name} has {count} functions, at most {TYPE_FUNCTIONS_MAX}; give some to another type"
            yield Finding(path, line, "type-functions", message)
        files = len(places[key])
        if files > TYPE_FILES_MAX and not ratchet.allows(f"{key}:files", files):
            message = (
                f"{name} is in {files} files, at most {TYPE_FILES_MAX}; give some functions to another type"
            )
            yield Finding(path, line, "type-files", message)
