"""What the rules of tools/tidy.py look at: sources as text, code and comments, and where functions begin and
end.

This is no parser. It recognizes comments, strings and braces, and guesses by the text before a brace whether
a function begins. The tests in tidy_test.py have the cases that matter for this code base.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Each alternative matches one kind of text that is not code. Their order matters: comments first, then raw
# strings, then strings.
C_FAMILY = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^\s()\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.[^'\n]*|[^'\\\n])'",
    re.DOTALL,
)
RUST = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"' r"|b?'(?:\\[^'\n]*|[^'\\\n])'",
    re.DOTALL,
)
PYTHON = re.compile(r'"""(?:\\.|[^\\])*?"""|#[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)

# Comments are whole lines; what follows a command may be a part of a string.
SHELL = re.compile(r"^\s*#[^\n]*", re.MULTILINE)
PATTERNS = {".rs": RUST, ".py": PYTHON, ".cc": C_FAMILY, ".h": C_FAMILY}

NOT_A_FUNCTION = re.compile(
    r"^\s*(namespace|class|struct|union|enum|extern\s*$|using|typedef|template\s*<[^>]*>\s*(class|struct))\b"
)
CONTROL = {
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "return",
    "else",
    "do",
    "sizeof",
    "decltype",
    "alignas",
    "requires",
}


@dataclass(frozen=True)
class Function:
    """A function, with the numbers (from 1) of the first line of its signature and the line of its closing
    brace."""

    name: str
    first_line: int
    last_line: int


def blank_comments_and_strings(text: str, suffix: str) -> str:
    """Returns `text` with every comment and string replaced by spaces. Line breaks stay, so lines keep their
    numbers."""
    pattern = PATTERNS.get(suffix)
    if pattern is None:
        return text
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def functions(code: str, suffix: str) -> list[Function]:
    """Returns the functions in `code`, from which comments and strings were removed. A lambda belongs to the
    function around it."""
    if suffix == ".rs":
        return rust_functions(code)
    if suffix in (".cc", ".h"):
        return cpp_functions(code)
    return []


def closing_brace(code: str, opening: int) -> int:
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, opening):
        depth += 1 if match.group(0) == "{" else -1
        if depth == 0:
            return match.start()
    return len(code) - 1


def line_of(code: str, position: int) -> int:
    return code.count("\n", 0, position) + 1


def rust_functions(code: str) -> list[Function]:
    found = []
    for match in re.finditer(r"\bfn\s+(\w+)", code):
        opening = re.compile(r"[{;]").search(code, match.end())
        if opening and opening.group(0) == "{":
            last = line_of(code, closing_brace(code, opening.start()))
            found.append(Function(match.group(1), line_of(code, match.start()), last))
    return found


def cpp_functions(code: str) -> list[Function]:
    """Searches the braces at namespace and class level. A brace after a parameter list begins a function."""
    code = re.sub(
        r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
        lambda match: re.sub(r"[^\n]", " ", match.group(0)),
        code,
        flags=re.M,
    )
    found: list[Function] = []
    position = head_start = 0
    while match := re.compile(r"[{};]").search(code, position):
        position = match.end()
        if match.group(0) == "{":
            head = code[head_start : match.start()]
            name = function_name(head)
            if name:
                end = closing_brace(code, match.start())
                first = head_start + len(head) - len(head.lstrip())
                found.append(Function(name, line_of(code, first), line_of(code, end)))
                position = end + 1
        head_start = position
    return found


def function_name(head: str) -> str:
    """Returns the function's name if `head`, the text before a brace, is a function's signature; otherwise an
    empty string."""
    if "(" not in head or NOT_A_FUNCTION.match(head):
        return ""
    match = re.search(
        r"([\w:~]+|operator\s*\S{1,3})\s*\(", re.sub(r"\b(?:alignas|__attribute__)\s*\([^)]*\)+", "", head)
    )
    if not match or match.group(1) in CONTROL or re.search(r"[^=!<>]=\s*$", head):
        return ""
    return match.group(1)


@dataclass(frozen=True)
class Finding:
    """One broken rule at one place."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


@dataclass
class Source:
    """A source file for the rules: its text, and the text without comments and strings."""

    path: str
    text: str
    # True for a .cc file with a .h file of the same name, whose comment says what both are for.
    has_own_header: bool = False

    def __post_init__(self) -> None:
        self.lines = self.text.splitlines()
        self.suffix = Path(self.path).suffix
        self.code = blank_comments_and_strings(self.text, self.suffix)
        self.code_lines = self.code.splitlines()

    @property
    def folder(self) -> str:
        """The folder below engine/, or an empty string."""
        parts = Path(self.path).parts
        return parts[1] if len(parts) > 2 and parts[0] == "engine" else ""

    @property
    def is_test(self) -> bool:
        return bool(re.search(r"(_test\.(cc|rs|py)|/tests?/.*|/test_[^/]*)$", self.path))

    def functions(self) -> list[Function]:
        return functions(self.code, self.suffix)

    def comments(self) -> Iterator[tuple[int, str]]:
        """Yields each line of a comment or docstring, with its number."""
        for match in (PATTERNS.get(self.suffix) or SHELL).finditer(self.text):
            if match.group(0).startswith(("//", "/*", "#", '"""')):
                first = line_of(self.text, match.start())
                yield from enumerate(match.group(0).splitlines(), first)


class Ratchet:
    """The listed exceptions: sizes above a limit, which may shrink but not grow."""

    def __init__(self, listed: dict[str, int]) -> None:
        self.listed = listed
        self.seen: set[str] = set()

    def allows(self, key: str, size: int) -> bool:
        self.seen.add(key)
        return size <= self.listed.get(key, 0)

    def unused(self) -> list[str]:
        return sorted(set(self.listed) - self.seen)
