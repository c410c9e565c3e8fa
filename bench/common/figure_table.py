"""Tables and charts of many figures of one case. A table has a line per figure, a column per setup, and the
ratios to InnoDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from common import charts
from common.compare import figure
from common.report import Report, megabytes, ratio_text, spread, thousands
from common.rig import BASELINE


@dataclass(frozen=True)
class Line:
    """One figure: its label in the table, its name in the results of interleave(), and how to format it."""

    label: str
    name: str
    show: Callable[[float], str] = thousands


def setups_of(results: dict[str, Any], setups: Sequence[str]) -> list[str]:
    """Returns the setups that have results, in the order given."""
    return [setup for setup in setups if results["setups"].get(setup)]


def add_figures(
    report: Report, title: str, results: dict[str, Any], setups: Sequence[str], lines: Sequence[Line],
    text: str = "",
) -> None:  # fmt: skip
    """Adds the table to the report. Figures that no setup has are left out. `results` come from
    interleave()."""
    shown = setups_of(results, setups)
    others = [setup for setup in shown if setup != BASELINE] if BASELINE in shown else []
    rows = []
    for line in lines:
        cells = [spread(results, setup, line.name, line.show) for setup in shown]
        if any(cells):
            ratios = [ratio_text(figure(results, setup, line.name, "ratio")) for setup in others]
            rows.append([line.label, *cells, *ratios])
    if rows:
        report.add_table(title, ["", *shown, *(f"{other} : {BASELINE}" for other in others)], rows, text)


def draw_figures(
    report: Report,
    file: str,
    title: str,
    results: dict[str, Any],
    setups: Sequence[str],
    lines: Sequence[Line],
) -> None:
    """Adds a chart with a panel per figure. Each panel has a scale of its own."""
    panels: dict[str, Any] = {}
    for line in lines:
        values = {
            setup: {"value": _scaled(figures[line.name], 1e-6 if line.show is megabytes else 1.0)}
            for setup, figures in results["setups"].items()
            if line.name in figures
        }
        if values:
            panels[line.label] = {"setups": values}
    charts.bars(
        panels, "value", setups_of(results, setups), report.add_chart(file, title), title=title, unit=""
    )


def _scaled(spread_of_figure: dict[str, Any], factor: float) -> dict[str, float]:
    return {name: spread_of_figure[name] * factor for name in ("median", "min", "max")}
