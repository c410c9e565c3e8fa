"""The report of a benchmark: a JSON file, a markdown fragment, charts, all in build/bench.

A report has tables and the command, settings and versions that are needed to repeat the run. bench/page.py
makes docs/benchmarks.md from the JSON files alone, so these contain everything that the page shows.
"""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from common.compare import figure
from common.measure import describe_machine, describe_versions
from common.rig import BASELINE, Running
from harness import paths

FORMAT = 1
OUTPUT = paths.BUILD / "bench"
DEFAULT_SETTINGS = {
    "isolation": "REPEATABLE READ",
    "binary log": "off",
    "log at commit": "synced (flush_log_at_trx_commit = 1)",
    "think time": "none",
}


def three_figures(value: float) -> str:
    """Returns the number with three significant figures, and without decimals from 100 on: 0.00123, 1.23,
    12.3, 1,234."""
    if value == 0:
        return "0"
    decimals = 2 - math.floor(math.log10(abs(value)))
    return f"{value:,.{min(max(decimals, 0), 7)}f}"


class Report:
    """Collects the results of one benchmark.

    report = Report("oltp", "sysbench", "make bench-oltp", "What it measures.", {"rows": 200000})
    report.note(running)                       # options and versions of each competitor
    report.results["point select"] = results   # what interleave() returned, or anything for JSON
    report.add_table("CPU", header, rows, "what to know about it")
    report.save()
    """

    def __init__(
        self, name: str, title: str, command: str, text: str, settings: dict[str, Any], *, quick: bool = False
    ):
        self.name = name
        self.title = title
        self.command = command
        self.text = text
        self.quick = quick
        self.settings = {**DEFAULT_SETTINGS, **settings}
        self.versions: dict[str, str] = {}
        self.servers: dict[str, dict[str, str]] = {}
        self.results: dict[str, Any] = {}
        self.failures: dict[str, str] = {}
        self.tables: list[dict[str, Any]] = []
        self.charts: list[dict[str, str]] = []

    def note(self, running: Running) -> None:
        """Adds the versions and server options of a setup to the report. Requires: its server runs."""
        self.versions.update(describe_versions(running))
        self.servers[running.name] = {"CREATE TABLE": f"ENGINE={running.engine_clause}", **running.options()}

    def add_table(
        self, title: str, header: Sequence[str], rows: Iterable[Sequence[Any]], text: str = ""
    ) -> None:
        """Adds a table. The cells are shown as they are."""
        cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
        self.tables.append({"title": title, "header": list(header), "rows": cells, "text": text})

    def add_summary(self, title: str, found: dict[str, dict[str, dict[str, float]]]) -> None:
        """Adds a table of what compare.summary_of_ratios() has found: a line per setup."""
        rows = [
            [name, *(two_digits(value["ratio"]) for value in values.values())]
            for name, values in found.items()
        ]
        self.add_table(title, ["", "median", "greatest", "above 1.5", "above 2"], rows)

    def add_comparison(
        self,
        title: str,
        cases: dict[str, dict[str, Any]],
        name: str,
        setups: Sequence[str],
        *,
        show: Callable[[float], str] = three_figures,
        text: str = "",
        base: str = BASELINE,
    ) -> None:
        """Adds a table of one figure: a line per case, a column per setup with median and spread, and the
        ratios to `base`.

        `cases`: label -> results of interleave(). No table is added when no case has the figure.
        """
        shown = [setup for setup in setups if any(figure(c, setup, name) is not None for c in cases.values())]
        others = [setup for setup in shown if setup != base] if base in shown else []
        rows = [
            [label, *(spread(results, setup, name, show) for setup in shown),
             *(ratio_text(figure(results, setup, name, "ratio")) for setup in others)]
            for label, results in cases.items()
        ]  # fmt: skip
        if shown and rows:
            self.add_table(title, ["", *shown, *(f"{other} : {base}" for other in others)], rows, text)

    def add_chart(self, file: str, caption: str) -> Path:
        """Adds a chart to the report and returns the path for its image. The file names of a quick run end
        with "-quick"."""
        OUTPUT.mkdir(parents=True, exist_ok=True)
        if self.quick:
            file = f"{Path(file).stem}-quick{Path(file).suffix}"
        self.charts.append({"file": file, "caption": caption})
        return OUTPUT / file

    def content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.name,
            "title": self.title,
            "command": self.command,
            "text": self.text,
            "quick": self.quick,
            "ok": not self.failures,
            "when": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
            "machine": describe_machine(),
            "versions": {**describe_versions(), **self.versions},
            "settings": {name: str(value) for name, value in self.settings.items()},
            "servers": self.servers,
            "failures": self.failures,
            "tables": self.tables,
            "charts": self.charts,
            "results": self.results,
        }

    def save(self) -> Path:
        """Writes <name>.json and <name>.md. The names of a quick run end with "-quick", and bench/page.py
        does not use them."""
        OUTPUT.mkdir(parents=True, exist_ok=True)
        stem = self.name + ("-quick" if self.quick else "")
        content = self.content()
        target = OUTPUT / f"{stem}.json"
        target.write_text(json.dumps(content, indent=1, default=str) + "\n")
        fragment = as_markdown(content)
        (OUTPUT / f"{stem}.md").write_text(fragment)
        print(fragment)
        print(f"wrote {target.relative_to(paths.ROOT)}")
        return target


# ---- Cells ---------------------------------------------------------------------------------------------


def spread(results: dict[str, Any], setup: str, name: str, show: Callable[[float], str]) -> str:
    """Returns "median (min–max)", or the median alone when min and max are equal; "" if the setup lacks the
    figure."""
    values = results["setups"].get(setup, {}).get(name)
    if values is None:
        return ""
    if values["min"] == values["max"]:
        return show(values["median"])
    return f"{show(values['median'])} ({show(values['min'])}–{show(values['max'])})"


def ratio_text(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def thousands(value: float) -> str:
    return f"{value:,.0f}"


def megabytes(value: float) -> str:
    return f"{value / 1e6:,.1f}"


def two_digits(value: float) -> str:
    return f"{value:.2f}"


# ---- Markdown ------------------------------------------------------------------------------------------


def as_markdown(content: dict[str, Any], folder: str = "") -> str:
    """Returns the report as one markdown section: command, settings, tables with ratios, and charts, whose
    files are in `folder`."""
    lines = [f"## {content['title']}", "", content["text"].strip(), "", f"    {content['command']}", ""]
    if content["quick"]:
        lines += ["A quick run: it shows that the benchmark works, its figures mean little.", ""]
    lines += [f"{name}: {value}  " for name, value in content["settings"].items()]
    lines += ["", f"Run on {content['when']}: {_machine(content)}.", ""]
    for setup, why in content["failures"].items():
        lines += [f"{setup} failed: {why.splitlines()[0]}", ""]
    for table in content["tables"]:
        lines += [f"### {table['title']}", ""] if table["title"] else []
        lines += [table["text"], ""] if table["text"] else []
        lines += [*table_lines(table["header"], table["rows"]), ""]
    for chart in content["charts"]:
        lines += [f"![{chart['caption']}]({folder}{chart['file']})", ""]
    lines += ["<details><summary>Options of each server</summary>", ""]
    for setup, options in content["servers"].items():
        lines += [f"* {setup}: {', '.join(f'`{name}={value}`' for name, value in options.items())}"]
    return "\n".join([*lines, "", "</details>", ""])


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns a table in markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]


def _machine(content: dict[str, Any]) -> str:
    machine, versions = content["machine"], content["versions"]
    software = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    memory_gib = machine["memory_bytes"] / (1 << 30)
    return f"{machine['cores']} cores, {memory_gib:.0f} GiB, Linux {machine['kernel']}; {software}"
