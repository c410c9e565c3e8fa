"""Computes the figures of the archive benchmark: medians, ratios to InnoDB and S3, and the comparison with
the goals. Draws a chart."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from harness import paths
from workloads.archive_engines import Bucket

STEPS = (
    "load", "alter_in", "alter_in_published", "query_plain_cold", "query_plain_again",
    "query_plain_cold_cache_kept", "add_index", "add_index_published", "query_index_cold",
    "query_index_again", "query_index_cold_cache_kept", "drop_index", "alter_back",
)  # fmt: skip

# (label, step or "size", [(must or hope, factor, reference)]); see the project's goals. A reference is the
# label of a variant. With "seconds" or "requests" as reference, the factor is an absolute limit.
GOALS: tuple[tuple[str, str, tuple[tuple[str, float, str], ...]], ...] = (
    ("ALTER in", "alter_in", (("must", 1.0, "S3 none"), ("hope", 0.6, "S3 none"))),
    ("query without index, cold", "query_plain_cold", (("must", 2.0, "S3 none"), ("hope", 0.8, "S3 none"))),
    (
        "query without index, again",
        "query_plain_again",
        (("must", 0.6, "InnoDB none"), ("hope", 1.0, "S3 none")),
    ),
    ("add index", "add_index", (("must", 0.8, "S3 none"), ("hope", 0.7, "InnoDB none"))),
    ("indexed query, cold", "query_index_cold", (("must", 0.3, "S3 none"), ("hope", 50, "requests"))),
    ("drop index", "drop_index", (("must", 0.050, "seconds"),)),
    ("size of the table, zstd", "size", (("must", 0.4, "InnoDB none"), ("hope", 1.0, "S3 zlib"))),
    ("ALTER back", "alter_back", (("must", 1.1, "S3 none"), ("hope", 0.8, "S3 none"))),
)


def build(benchmark, machine: dict[str, object]) -> dict[str, Any]:
    """Turns the runs into the content of archive.json."""
    results = {}
    for variant in benchmark.variants:
        runs = benchmark.runs[variant.label]
        if runs:
            results[variant.label] = _result(variant, runs, benchmark.request_counts.get(variant.label))
    return {
        "ok": not benchmark.failures,
        "rows": benchmark.rows,
        "repeat": benchmark.repeat,
        "answer": {"rows": benchmark.expected[0], "md5": benchmark.expected[1]},
        "machine": machine,
        "versions": {
            **benchmark.versions,
            "minio": benchmark.minio.version(),
            "plugin": str(paths.plugin().name),
        },
        "settings": {variant.label: _settings(variant, benchmark) for variant in benchmark.variants},
        "failures": benchmark.failures,
        "results": results,
        "goals": judge(results),
    }


def _settings(variant, benchmark) -> dict[str, str]:
    bucket = Bucket("127.0.0.1:9000", "run", benchmark.minio.credentials)
    shown = {name: str(value) for name, value in variant.options(bucket).items() if "key" not in name}
    return {**shown, "table options": variant.table_options, "alter": "; ".join(variant.alter_in())}


def _result(variant, runs, counted: dict[str, dict[str, int]] | None) -> dict[str, Any]:
    steps = {}
    for step in STEPS:
        seconds = [run.seconds[step] for run in runs if step in run.seconds]
        if seconds:
            steps[step] = {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}
    sizes = {
        name: round(statistics.median(run.sizes_bytes[name] for run in runs)) for name in runs[0].sizes_bytes
    }
    memory = {name: max(run.rss_peak_bytes.get(name, 0) for run in runs) for name in runs[0].rss_peak_bytes}
    return {
        "engine": variant.engine,
        "compression": variant.compression,
        "steps_seconds": steps,
        "bytes_in_bucket" if variant.remote else "bytes_on_disk": sizes,
        "requests": counted or runs[-1].requests,
        "requests_counted_by": "proxy" if counted else "engine",
        "rss_peak_bytes": memory,
    }


def _value(results: dict[str, Any], label: str, what: str) -> float | None:
    result = results.get(label)
    if result is None:
        return None
    if what == "size":
        return (result.get("bytes_in_bucket") or result.get("bytes_on_disk"))["table"]
    step = result["steps_seconds"].get(what)
    return step["median"] if step else None


def judge(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Compares every Atoll variant with the goals."""
    verdicts = []
    for label in (label for label in results if label.startswith("ATOLL")):
        for what, step, goals in GOALS:
            if step == "size" and label != "ATOLL zstd":
                continue
            for level, limit, reference in goals:
                ratio = _ratio(results, label, step, reference)
                if ratio is not None:
                    goal = {"variant": label, "what": what, "level": level, "limit": limit}
                    verdicts.append({**goal, "reference": reference, "value": ratio, "met": ratio <= limit})
    return verdicts


def _ratio(results: dict[str, Any], label: str, step: str, reference: str) -> float | None:
    if reference == "requests":
        counts = results[label]["requests"].get(step, {})
        return float(sum(counts.values())) if counts else None
    mine = _value(results, label, step)
    if reference == "seconds" or mine is None:
        return mine
    other = _value(results, reference, step)
    return mine / other if other else None


def as_text(report: dict[str, Any]) -> str:
    """Returns the tables printed at the end: medians, ratios, goals."""
    results = report["results"]
    lines = ["", f"{report['rows']} rows, medians of {report['repeat']} in seconds"]
    lines += _table(results, list(STEPS), lambda label, step: _value(results, label, step), "{:9.3f}")
    lines += ["", "size in MB (bucket, or file on disk), requests of the cold indexed query, peak RSS in MB"]
    lines += _summary(results)
    for reference in ("InnoDB none", "S3 none"):
        if reference in results:
            lines += ["", f"ratio to {reference}"]
            lines += _table(
                results,
                [*STEPS, "size"],
                lambda label, step, base=reference: _ratio(results, label, step, base),
                "{:9.2f}",
            )
    if report["goals"]:
        lines += ["", "goals"]
        for goal in report["goals"]:
            mark = "met " if goal["met"] else "MISSED"
            lines.append(
                f"  {goal['variant']:11} {goal['what']:28} {goal['level']:5} <= {goal['limit']:<6g} "
                f"{goal['reference']:12} is {goal['value']:9.3f}  {mark}"
            )
    lines += [f"FAILED {label}: {why}" for label, why in report["failures"].items()]
    return "\n".join(lines)


def _table(results: dict[str, Any], steps: list[str], value, form: str) -> list[str]:
    labels = list(results)
    lines = [" " * 29 + "".join(f"{label.replace(' ', '/'):>16}" for label in labels)]
    for step in steps:
        cells = [value(label, step) for label in labels]
        if any(cell is not None for cell in cells):
            lines.append(
                f"  {step:27}"
                + "".join(f"{form.format(cell) if cell is not None else '-':>16}" for cell in cells)
            )
    return lines


def _summary(results: dict[str, Any]) -> list[str]:
    lines = []
    for label, result in results.items():
        sizes = result.get("bytes_in_bucket") or result.get("bytes_on_disk")
        peak = max(result["rss_peak_bytes"].values())
        lines.append(
            f"  {label:15} table {sizes['table'] / 1e6:8.1f}  and index {sizes['table_and_index'] / 1e6:8.1f}"
            f"  RSS {peak / 1e6:7.0f}  {result['requests'].get('query_index_cold') or ''}"
        )
    return lines


def draw(report: dict[str, Any], target: Path) -> None:
    """Draws one panel per step, with a bar per engine and compression and whiskers from min to max."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    results = report["results"]
    shown = [step for step in STEPS if any(step in result["steps_seconds"] for result in results.values())]
    colours = {"InnoDB": "#4477aa", "ROCKSDB": "#ccbb44", "S3": "#ee6677", "ATOLL": "#228833"}
    figure, axes = pyplot.subplots((len(shown) + 3) // 4, 4, figsize=(15, 3 * ((len(shown) + 3) // 4)))
    flat = list(axes.flat)
    for axis in flat[len(shown) :]:
        axis.axis("off")
    for axis, step in zip(flat, shown, strict=False):
        for position, result in enumerate(results.values()):
            seconds = result["steps_seconds"].get(step)
            if seconds:
                whiskers = [[seconds["median"] - seconds["min"]], [seconds["max"] - seconds["median"]]]
                axis.bar(
                    position,
                    seconds["median"],
                    yerr=whiskers,
                    capsize=2,
                    color=colours.get(result["engine"], "#888888"),
                )
        axis.set_title(step.replace("_", " "), fontsize=9)
        axis.set_xticks(range(len(results)), [label.replace(" ", "\n") for label in results], fontsize=6)
        axis.set_ylabel("seconds", fontsize=7)
        axis.tick_params(axis="y", labelsize=7)
    figure.suptitle(f"Archive benchmark, {report['rows']} rows, medians of {report['repeat']}")
    figure.tight_layout()
    figure.savefig(target, dpi=110)
