#!/usr/bin/env python3
"""Tries the anomalies of isolation levels with InnoDB and ATOLL, and shows which are possible.

Usage: tools/anomalies.py [--write]

--write puts the table into docs/isolation.md, between two marks. tests/sql/test_isolation.py checks that the
document is right.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness import anomalies, paths
from harness.process import discard, scratch_directory, stop_everything
from harness.server import Server


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="update docs/isolation.md")
    arguments = parser.parse_args()
    home = scratch_directory("anomalies")
    try:
        text = anomalies.table(anomalies.run_all(Server(home / "server").start()))
    finally:
        stop_everything()
        discard(home)
    print(text)
    if arguments.write:
        anomalies.write_document(text)
        print(f"written to {anomalies.DOCUMENT.relative_to(paths.ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
