"""Reads the latencies that bench/linkbench/latency.lua has written: one file per client, one line per type of
request."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

BUCKET_WIDTH = 1.02  # bucket n begins at 1.02 ** n microseconds; as in latency.lua
PERCENTILES = (50, 95, 99, 99.9)


@dataclass
class Latencies:
    """The latencies of all clients' requests of one type."""

    requests: int = 0
    longest_us: float = 0.0
    buckets: Counter[int] = field(default_factory=Counter)

    def add_line(self, requests: str, longest_us: str, buckets: list[str]) -> None:
        self.requests += int(requests)
        self.longest_us = max(self.longest_us, float(longest_us))
        for bucket in buckets:
            number, _, count = bucket.partition(":")
            self.buckets[int(number)] += int(count)

    def add(self, other: Latencies) -> None:
        self.requests += other.requests
        self.longest_us = max(self.longest_us, other.longest_us)
        self.buckets.update(other.buckets)

    def percentile_ms(self, percent: float) -> float:
        """Returns the latency that `percent` of the requests did not exceed. It is rounded up, by at most
        2 %."""
        so_far = 0
        for number in sorted(self.buckets):
            so_far += self.buckets[number]
            if so_far >= self.requests * percent / 100:
                return min(BUCKET_WIDTH ** (number + 1), self.longest_us) / 1000
        return 0.0

    def figures(self) -> dict[str, float]:
        """Returns the number of requests, and p50 … p99.9 and max in milliseconds."""
        shown = {f"p{percent:g}": self.percentile_ms(percent) for percent in PERCENTILES}
        return {"requests": self.requests, **shown, "max": self.longest_us / 1000}


def read_latencies(prefix: Path) -> dict[str, Latencies]:
    """Returns the latencies by type, summed over all clients. Removes the clients' files
    <prefix>.<number>."""
    types: dict[str, Latencies] = {}
    for path in sorted(prefix.parent.glob(f"{prefix.name}.*")):
        for line in path.read_text().splitlines():
            name, requests, longest_us, *buckets = line.split()
            types.setdefault(name, Latencies()).add_line(requests, longest_us, buckets)
        path.unlink()
    return types


def total_of(types: dict[str, Latencies]) -> Latencies:
    total = Latencies()
    for latencies in types.values():
        total.add(latencies)
    return total
