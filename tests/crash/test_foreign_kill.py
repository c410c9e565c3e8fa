"""Goal:   after kill -9 in the middle of cascades and of DDL with constraints FOREIGN KEY, no child is without its
        parent, and every constraint is there or not, as a whole.
Method: four clients change parents and children, and one adds, drops and renames constraints and tables, until the
        server is killed. Then the tables of the constraints that information_schema shows must exist, and a
        constraint that is there must work.

ATOLL_FOREIGN_KILL_ROUNDS changes the number of rounds, ATOLL_FOREIGN_KILL_SEED repeats a run.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time

import pymysql
from harness.foreign_keys.load import ORPHANS, TABLES, Client
from harness.server import Server

ROUNDS = int(os.environ.get("ATOLL_FOREIGN_KILL_ROUNDS", "8"))
SEED = int(os.environ.get("ATOLL_FOREIGN_KILL_SEED", str(random.randrange(1 << 30))))
DDL_TABLES = (
    "CREATE TABLE anomaly.q (id INT PRIMARY KEY) ENGINE=ATOLL",
    "INSERT INTO anomaly.q VALUES (1), (2)",
    "CREATE TABLE anomaly.e (id INT PRIMARY KEY, q INT, KEY (q)) ENGINE=ATOLL",
    "INSERT INTO anomaly.e VALUES (1, 1), (2, 2)",
)
DDL = (
    "ALTER TABLE e ADD CONSTRAINT x FOREIGN KEY (q) REFERENCES q (id)",
    "RENAME TABLE q TO qq",
    "ALTER TABLE e ENGINE=ATOLL, ALGORITHM=COPY",
    "ALTER TABLE e RENAME ee",
    "RENAME TABLE qq TO q, ee TO e",
    "ALTER TABLE e DROP FOREIGN KEY x",
)


class Definer(threading.Thread):
    """Repeats the statements of DDL until the server has gone."""

    def __init__(self, server: Server):
        super().__init__()
        self._connection = server.connect("anomaly")

    def run(self) -> None:
        with contextlib.suppress(pymysql.Error), self._connection.cursor() as cursor:
            while True:
                for statement in DDL:
                    cursor.execute(statement)


def load_and_kill(server: Server, seed: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    clients = [Client(server, "REPEATABLE READ", f"{seed}/{number}", end + 60) for number in range(4)]
    threads = [*clients, Definer(server)]
    for thread in threads:
        thread.start()
    time.sleep(max(0, end - time.monotonic()))
    server.kill()
    for thread in threads:
        thread.join()
    assert sum(client.done for client in clients) > 0


def check_definitions(server: Server) -> None:
    """Then brings the tables of DDL back to their first state."""
    tables = {name for (name,) in server.run("SHOW TABLES FROM anomaly")}
    [child], [parent] = tables & {"e", "ee"}, tables & {"q", "qq"}
    shown = server.run(
        "SELECT table_name, referenced_table_name FROM information_schema.referential_constraints "
        "WHERE constraint_schema = 'anomaly' AND constraint_name = 'x'"
    )
    assert shown in ([], [(child, parent)]), (shown, tables)
    for table in (child, parent):
        assert server.run(f"CHECK TABLE {table} EXTENDED", database="anomaly")[-1][-1] == "OK"
        assert server.value(f"SELECT COUNT(*) FROM {table}", database="anomaly") == 2
    try:
        server.run(
            f"INSERT INTO {child} VALUES (3, 3)", f"DELETE FROM {child} WHERE id = 3", database="anomaly"
        )
        assert not shown, "the constraint does nothing"
    except pymysql.err.IntegrityError as error:
        assert shown and f"REFERENCES `{parent}`" in str(error), error
    if shown:
        server.run(f"ALTER TABLE {child} DROP FOREIGN KEY x", database="anomaly")
    for found, first in ((child, "e"), (parent, "q")):
        if found != first:
            server.run(f"RENAME TABLE {found} TO {first}", database="anomaly")


def test_kill_in_cascades_and_definitions(lab):
    print(f"ATOLL_FOREIGN_KILL_SEED={SEED}")
    server = lab.server("server", atoll_lock_wait_timeout=1).start()
    server.run(*TABLES, *DDL_TABLES)
    dice = random.Random(SEED)
    for number in range(ROUNDS):
        load_and_kill(server, f"{SEED}/{number}", 0.5 + 2 * dice.random())
        server.start()
        for query in ORPHANS:
            assert server.run(query) == [], query
        for table in ("p", "r", "c"):
            assert server.run(f"CHECK TABLE anomaly.{table} EXTENDED")[-1][-1] == "OK"
        check_definitions(server)
