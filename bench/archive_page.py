"""Makes docs/benchmarks/archive.md and archive.png from docs/benchmarks/archive.json, the published figures
of the archive experiment.

    build/bin/python bench/archive_page.py                           the page, from the published figures
    build/bin/python bench/archive_page.py build/bench/archive.json  publishes a new run first
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common.charts import draw_panels
from common.report import table_lines
from harness import paths

PUBLISHED = paths.ROOT / "docs" / "benchmarks" / "archive.json"
# Label of a variant in a run's archive.json -> its name on the page.
NAMES = {
    "InnoDB none": "InnoDB",
    "ROCKSDB zstd": "MyRocks zstd",
    "S3 none": "S3 engine",
    "S3 zlib": "S3 engine zlib",
    "ATOLL zstd": "Atoll zstd",
}
STEPS = {
    "alter_in": "ALTER TABLE … ENGINE=…, from InnoDB",
    "query_plain_cold": "query without index, nothing cached",
    "query_plain_again": "the same query again",
    "add_index": "ADD INDEX",
    "query_index_cold": "query by the index, nothing cached",
    "query_index_cold_cache_kept": "the same, part cache kept",
    "drop_index": "DROP INDEX",
    "alter_back": "ALTER TABLE … ENGINE=InnoDB",
}
CHART = ("alter_in", "query_plain_cold", "add_index", "query_index_cold", "drop_index", "alter_back")
HEAD = """# The archive experiment

Made by `bench/archive_page.py` from [archive.json](archive.json); do not edit.

A table of {rows:,} rows (`id INT, description VARCHAR(40)`, 33 random characters) is moved out of InnoDB, queried,
indexed, and moved back. Every remote engine uses the same MinIO on the same machine, and 256 MiB of cache memory.
Figures are seconds, medians of {repeat} interleaved repetitions, on two cores with no other work ({when}). Only the
ratios mean something on another machine.

    {command}

![Seconds for each step, and megabytes stored](archive.png)
"""
TAIL = """Slower than we want: the query without index, beside the read-only pages of the S3 engine, and ALTER back. The
query by the index returns 512 rows that are 195 KiB apart, so it fetches every part of the table. Both cores are busy
from the first 20 ms on, half of that with MinIO itself.
"""


def publish(run: dict[str, Any]) -> dict[str, Any]:
    """Returns the figures of a run of bench/archive.py that are published."""
    results = {}
    for label, name in NAMES.items():
        if label not in run["results"]:
            continue
        result = run["results"][label]
        sizes = result.get("bytes_in_bucket") or result["bytes_on_disk"]
        requests = result["requests"].get("query_index_cold") if result["engine"] in ("S3", "ATOLL") else None
        results[name] = {
            "engine": result["engine"],
            "steps_seconds": {
                step: round(spread["median"], 3) for step, spread in result["steps_seconds"].items()
            },
            "megabytes": {what: round(size / 1e6) for what, size in sizes.items()},
            **({"requests_query_index_cold": sum(requests.values())} if requests else {}),
            "peak_memory_mb": round(max(result["rss_peak_bytes"].values()) / 1e6),
        }
    return {
        "command": "make bench-archive",
        "when": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "rows": run["rows"],
        "repeat": run["repeat"],
        "results": results,
    }


def as_results(published: Path) -> dict[str, Any]:
    """Returns the published steps in the structure of a report's results, for the table of goals."""
    steps: dict[str, Any] = {}
    for name, result in json.loads(published.read_text())["results"].items():
        for step, seconds in result["steps_seconds"].items():
            steps.setdefault(step, {"setups": {}})["setups"][name] = {"seconds": {"median": seconds}}
    return {"results": steps}


def page(published: dict[str, Any]) -> str:
    results = published["results"]
    rows = []
    for step, title in STEPS.items():
        rows.append(
            [title, *(_cell(result["steps_seconds"].get(step), "{:.2f}") for result in results.values())]
        )
    for what, title in (("table", "table, MB"), ("table_and_index", "table and index, MB")):
        rows.append([title, *(_cell(result["megabytes"].get(what), "{:.0f}") for result in results.values())])
    for key, title in (
        ("requests_query_index_cold", "requests of the cold query by the index"),
        ("peak_memory_mb", "peak memory of the server, MB"),
    ):
        rows.append([title, *(_cell(result.get(key), "{:.0f}") for result in results.values())])
    note = f"\n{published['note']}\n" if "note" in published else ""
    head = HEAD.format(**published)
    return "\n".join([head, *table_lines(["", *results], rows), note, TAIL])


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def draw(published: dict[str, Any], target: Path) -> None:
    """Draws one panel for each step and one for the size, with a bar for each engine."""
    results = published["results"]
    panels = {
        f"{STEPS[step]}, s": {name: result["steps_seconds"][step] for name, result in results.items()}
        for step in CHART
    }
    panels["table and index, MB"] = {
        name: result["megabytes"]["table_and_index"] for name, result in results.items()
    }
    draw_panels(panels, target, title=f"The archive experiment: {published['rows']:,} rows, less is better")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?", help="archive.json of a new run")
    arguments = parser.parse_args()
    if arguments.run:
        PUBLISHED.write_text(json.dumps(publish(json.loads(arguments.run.read_text())), indent=1) + "\n")
    published = json.loads(PUBLISHED.read_text())
    PUBLISHED.with_suffix(".md").write_text(page(published))
    draw(published, PUBLISHED.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
