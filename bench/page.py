"""Makes docs/benchmarks.md from the reports in build/bench. Each report has a section; its charts go to
docs/benchmarks/.

The reports are also kept in docs/benchmarks/reports, so that a new run of one benchmark changes only its own
section. A benchmark without a report is listed as not run. Reports of quick runs are not used.

    build/bin/python bench/page.py
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import archive_page
from common import report
from common.goals import goals_table
from harness import paths

# The order of the sections on the page. Reports with other names follow.
ORDER = (
    "oltp", "access", "bulk", "foreign", "tpcc", "linkbench", "tpch", "blob", "neo", "commit", "cache", "past",
)  # fmt: skip
# Benchmarks whose JSON files have another format. The README and their own output show their figures.
OTHERS = ("archive", "ddl")
HEAD = """# Benchmarks

Made by `make bench-page` from the JSON files that the benchmarks write to `build/bench`, and from those of former runs
in `benchmarks/reports`; do not edit. Each section names its command and its day, and all of it was run on one machine
at a time with nothing else to do. The competitors take turns within each repetition; a figure is the median of the
repetitions, with the least and the greatest in parentheses. A ratio is the median of the ratios within the repetitions,
so that a slow minute of the machine counts for both sides. CPU, bytes written and memory are those of the server's
process (background work included, clients and MinIO not).
Only the ratios mean something on another machine.
"""


def load(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns the reports by name. Files with another format are left out, with a message."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        if not isinstance(content, dict) or content.get("format") != report.FORMAT:
            if path.stem not in OTHERS:
                print(f"{path.name} is no report of this rig: left out")
        elif content["quick"]:
            print(f"{path.name} is of a quick run: left out")
        else:
            found[content["name"]] = content
    return found


def load_kept(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns the kept reports of former runs by name."""
    kept = (json.loads(lzma.decompress(path.read_bytes())) for path in sorted(folder.glob("*.json.xz")))
    return {content["name"]: content for content in kept}


def keep(reports: dict[str, dict[str, Any]], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in reports.items():
        text = json.dumps(content, separators=(",", ":")).encode()
        (folder / f"{name}.json.xz").write_bytes(lzma.compress(text))


def in_order(reports: dict[str, dict[str, Any]]) -> list[str]:
    """Returns the names of the page's sections: those of ORDER, each followed by its variants ("tpcc",
    "tpcc-memory"), then all others."""
    names = []
    for name in ORDER:
        names += [name, *(other for other in reports if other.startswith(f"{name}-"))]
    return [*names, *(other for other in reports if other not in names)]


def page(reports: dict[str, dict[str, Any]]) -> str:
    """Returns the whole page."""
    sections = []
    for name in in_order(reports):
        if name in reports:
            sections.append(report.as_markdown(reports[name], folder="benchmarks/"))
        else:
            print(f"{name} has no report: left out")
            sections.append(f"## {name}\n\nNot run yet: `make bench-{name}`.\n")
    goals = (
        [goals_table({**reports, "archive": archive_page.as_results(archive_page.PUBLISHED)})]
        if reports
        else []
    )
    return "\n".join([HEAD, *goals, *sections])


def copy_charts(reports: dict[str, dict[str, Any]], source: Path, target: Path) -> None:
    for content in reports.values():
        for chart in content["charts"]:
            if (source / chart["file"]).exists():
                target.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / chart["file"], target / chart["file"])
            else:
                print(f"the chart {chart['file']} is missing")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", type=Path, default=report.OUTPUT)
    parser.add_argument("--output", type=Path, default=paths.ROOT / "docs" / "benchmarks.md")
    arguments = parser.parse_args()
    new = load(arguments.input)
    folder = arguments.output.parent / "benchmarks"
    reports = {**load_kept(folder / "reports"), **new}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(page(reports))
    copy_charts(new, arguments.input, folder)
    keep(new, folder / "reports")
    print(f"wrote {arguments.output.name}: {', '.join(reports) or 'no benchmark has run'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
