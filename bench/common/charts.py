"""Draws the charts of the benchmarks: a bar for each case and setup, or lines over a parameter or over
time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.compare import figure

COLOURS = {
    "InnoDB": "#4477aa",
    "InnoDB compressed": "#66ccee",
    "MyRocks": "#ccbb44",
    "MyRocks zstd": "#ccbb44",
    "S3 engine": "#ee6677",
    "S3 engine zlib": "#ffaabb",
    "Atoll": "#228833",
    "Atoll zstd": "#228833",
    "Atoll on MinIO": "#aa3377",
    "Atoll on versitygw": "#aa3377",
}
OTHER_COLOURS = ("#ee6677", "#bbbbbb", "#000000", "#997700", "#004488")


def colour_of(label: str, position: int = 0) -> str:
    """Returns the colour of a setup, which is the same in all charts. Other labels get a colour by their
    position."""
    return COLOURS.get(label, OTHER_COLOURS[position % len(OTHER_COLOURS)])


def _pyplot():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def bars(
    cases: dict[str, dict[str, Any]], name: str, setups: Sequence[str], target: Path, *, title: str, unit: str
) -> None:
    """Draws one panel per case with a bar per setup (median) and whiskers from min to max.

    `cases`: label -> results of interleave().
    """
    pyplot = _pyplot()
    columns = 4
    rows = max((len(cases) + columns - 1) // columns, 1)
    figure_, axes = pyplot.subplots(rows, columns, figsize=(15, 2.8 * rows + 0.4), squeeze=False)
    flat = list(axes.flat)
    for axis in flat[len(cases) :]:
        axis.axis("off")
    for axis, (label, results) in zip(flat, cases.items(), strict=False):
        shown = [setup for setup in setups if figure(results, setup, name) is not None]
        for position, setup in enumerate(shown):
            _bar(axis, position, results["setups"][setup][name], colour_of(setup, position))
        axis.set_title(label, fontsize=9)
        axis.set_xticks(range(len(shown)), [setup.replace(" ", "\n") for setup in shown], fontsize=6)
        axis.set_ylabel(unit, fontsize=7)
        axis.tick_params(axis="y", labelsize=7)
    _finish(pyplot, figure_, title, target)


def _bar(axis, position: int, spread: dict[str, float], colour: str) -> None:
    median = spread["median"]
    whiskers = [[median - spread["min"]], [spread["max"] - median]]
    axis.bar(position, median, yerr=whiskers, capsize=2, color=colour)


def draw_panels(panels: dict[str, dict[str, float]], target: Path, *, title: str) -> None:
    """Draws one panel per key with a horizontal bar and its value for each label: {panel: {label: value}}."""
    pyplot = _pyplot()
    columns = 4
    rows = (len(panels) + columns - 1) // columns
    figure_, axes = pyplot.subplots(rows, columns, figsize=(13, 2.1 * rows + 0.4), squeeze=False)
    flat = list(axes.flat)
    for axis in flat[len(panels) :]:
        axis.axis("off")
    for position, (axis, (panel, values)) in enumerate(zip(flat, panels.items(), strict=False)):
        labels = list(values)
        drawn = axis.barh(labels, list(values.values()), color=[colour_of(label) for label in labels])
        axis.bar_label(drawn, fmt="%.4g", fontsize=8, padding=2)
        axis.set_xlim(right=max(values.values()) * 1.25)
        axis.invert_yaxis()
        axis.set_title(panel, fontsize=8)
        axis.tick_params(labelsize=8, labelleft=position % columns == 0)
        axis.tick_params(axis="x", labelsize=7)
    _finish(pyplot, figure_, title, target)


def lines(
    panels: dict[str, dict[str, list[tuple[float, float]]]],
    target: Path,
    *,
    title: str,
    x_label: str,
    y_label: str,
    x_log: bool = False,
    y_log: bool = False,
) -> None:
    """Draws one panel per key with a line per label: {panel: {label: [(x, y), …]}}. Also for series over time."""
    pyplot = _pyplot()
    columns = min(max(len(panels), 1), 3)
    rows = max((len(panels) + columns - 1) // columns, 1)
    figure_, axes = pyplot.subplots(rows, columns, figsize=(5 * columns, 3.6 * rows + 0.4), squeeze=False)
    flat = list(axes.flat)
    for axis in flat[len(panels) :]:
        axis.axis("off")
    for axis, (panel, curves) in zip(flat, panels.items(), strict=False):
        for position, (label, points) in enumerate(curves.items()):
            marker = "o" if len(points) <= 20 else ""
            xs, ys = [x for x, _ in points], [y for _, y in points]
            axis.plot(xs, ys, marker=marker, markersize=3, label=label, color=colour_of(label, position))
        axis.set_title(panel, fontsize=9)
        axis.set_xlabel(x_label, fontsize=7)
        axis.set_ylabel(y_label, fontsize=7)
        axis.set_xscale("log" if x_log else "linear")
        axis.set_yscale("log" if y_log else "linear")
        if not y_log:
            axis.set_ylim(bottom=0)
        axis.tick_params(labelsize=7)
        axis.legend(fontsize=6)
    _finish(pyplot, figure_, title, target)


def _finish(pyplot, figure_, title: str, target: Path) -> None:
    figure_.suptitle(title)
    figure_.tight_layout()
    figure_.savefig(target, dpi=110)
    pyplot.close(figure_)
