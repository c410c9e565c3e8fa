"""The steps of the demo with a second server on the bucket: it reads beside the writer and takes its place."""

from __future__ import annotations

import time
from pathlib import Path

from harness.process import wait_until
from harness.server import Server

FOLLOWS_WITHIN_S = 60


class Reader:
    """A server that reads the bucket of another one. It has no tables of its own."""

    def __init__(self, writer: Server, home: Path):
        self.writer = writer
        self.server = Server(home)

    def start(self) -> dict:
        # With `local`, the default of a directory, nothing limits how late commits come into the bucket.
        self.writer.run("SET GLOBAL atoll_durability = 'async'")
        self.server.options = {**self.writer.options, "atoll_role": "reader"}
        self.server.initialize()
        started = time.perf_counter()
        self.server.start()
        rows = self.server.value("SELECT COUNT(*) FROM moved.flights")
        return {"rows": rows, "seconds": time.perf_counter() - started}

    def follow(self) -> dict:
        """A table and rows that the writer makes are found here, without a word between the servers."""
        started = time.perf_counter()
        self.writer.run(
            "CREATE TABLE moved.news (id INT PRIMARY KEY, body VARCHAR(100)) ENGINE=ATOLL",
            "INSERT INTO moved.news SELECT seq, CONCAT('line ', seq) FROM mysql.seq_1_to_100",
        )
        wait_until(lambda: self._rows_of_news() == 100, FOLLOWS_WITHIN_S, "the reader to show the new table")
        return {"rows": 100, "seconds": time.perf_counter() - started}

    def _rows_of_news(self) -> int:
        if not self.server.run("SHOW TABLES IN moved LIKE 'news'"):
            return 0
        return int(self.server.value("SELECT COUNT(*) FROM moved.news"))

    def take_over(self) -> dict:
        """The writer dies. The reader becomes the writer while it runs, and writes."""
        self.writer.kill()
        started = time.perf_counter()
        self.server.run("SET GLOBAL atoll_role = 'writer'", "UPDATE moved.news SET body = UPPER(body)")
        seconds = time.perf_counter() - started
        changed = self.server.value("SELECT COUNT(*) FROM moved.news WHERE body LIKE BINARY 'LINE%'")
        self.server.run("DROP TABLE moved.news")
        return {"rows": changed, "seconds": seconds}
