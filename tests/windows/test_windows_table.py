"""Goal:   docs/internals/windows.md and the tests agree: each row names existing tests, and a row names each
        test of a window.
Method: compares the names in the table with the functions in the sources.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (\d+) \|[^|]*\|([^|]*)\|([^|]*)\|$", re.MULTILINE)


def rows() -> dict[int, tuple[str, list[str]]]:
    """Number of a window -> what must hold, and the names of its tests."""
    text = (ROOT / "docs/internals/windows.md").read_text()
    return {
        int(number): (holds, re.findall(r"`([^`]+)`", tests)) for number, holds, tests in ROW.findall(text)
    }


def functions(sources: list[Path], keyword: str) -> set[str]:
    return {
        name
        for path in sources
        for name in re.findall(rf"^\s*(?:async )?{keyword} (\w+)\(", path.read_text(), re.MULTILINE)
    }


@pytest.mark.no_plugin
def test_each_window_names_tests_that_exist():
    python = functions(list((ROOT / "tests").rglob("test_*.py")), "def")
    rust = functions(list((ROOT / "crates").glob("*/**/*.rs")), "fn")
    assert sorted(rows()) == list(range(1, len(rows()) + 1)) and len(rows()) >= 34
    for number, (_holds, tests) in rows().items():
        assert tests, f"window {number} names no test"
        for test in tests:
            name = test.removesuffix(".rs")
            assert name in (python if name == test else rust), f"window {number}: there is no test {test}"


@pytest.mark.no_plugin
def test_each_test_of_a_window_is_in_the_table():
    sources = [
        path for path in (ROOT / "tests").rglob("test_windows_*.py") if path != Path(__file__).resolve()
    ]
    tests = {name for name in functions(sources, "def") if name.startswith("test_")}
    assert tests
    missing = tests - {name for _holds, named in rows().values() for name in named}
    assert not missing, f"in no row of docs/internals/windows.md: {sorted(missing)}"
