"""Goal:   a replica with ATOLL tables repeats what constraints FOREIGN KEY do on the primary, whatever the format of
        the binary log, and has the same rows. Cascades are not in the binary log.
Method: clients of the primary insert children and remove, move and replace parents, and the replica applies their
        transactions in parallel.
"""

from __future__ import annotations

import pytest
from harness.digest import database_digests
from test_replication import VALUES, Client, connect, primary_and_replica, wait_for_replica

STEPS = 60
TABLES = (
    "CREATE TABLE d.p (id INT PRIMARY KEY, u INT, UNIQUE (u)) ENGINE=ATOLL",
    "CREATE TABLE d.c (id INT AUTO_INCREMENT PRIMARY KEY, p INT, u INT, "
    "FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE, "
    "FOREIGN KEY (u) REFERENCES p (u) ON DELETE SET NULL ON UPDATE CASCADE) ENGINE=ATOLL",
    "CREATE TABLE d.g (id INT AUTO_INCREMENT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES c (id) ON DELETE CASCADE) "
    "ENGINE=ATOLL",
    f"INSERT INTO d.p SELECT seq, seq FROM mysql.seq_0_to_{VALUES - 1}",
)

# Written last, because the clients may end with a cascade that leaves no child.
LAST_FAMILY = (
    "INSERT INTO d.p VALUES (1000, 1001), (1002, 1003)",
    "INSERT INTO d.c (p, u) VALUES (1000, 1001), (1002, 1003)",
    "INSERT INTO d.g (c) SELECT id FROM d.c WHERE p >= 1000",
    "UPDATE d.p SET id = 1001, u = 1002 WHERE id = 1000",
    "DELETE FROM d.p WHERE id = 1002",
)


class FamilyClient(Client):
    """Changes parents and children. Refused statements are a part of the play."""

    def _statement(self) -> str:
        one, other = self._dice.randrange(VALUES), self._dice.randrange(VALUES)
        return self._dice.choice((
            f"INSERT INTO c (p, u) VALUES ({one}, {other}), ({other}, NULL)",
            f"INSERT INTO g (c) VALUES ({self._dice.randrange(200)})",
            f"DELETE FROM p WHERE id = {one}",
            f"REPLACE INTO p VALUES ({one}, {other})",
            f"INSERT INTO p VALUES ({one}, {other}) ON DUPLICATE KEY UPDATE u = {other}",
            f"UPDATE p SET id = {one} WHERE id = {other}",
            f"UPDATE c SET p = {one} WHERE u = {other}",
            f"DELETE FROM c WHERE p = {one}",
        ))  # fmt: skip


@pytest.mark.parametrize("binlog_format", ["ROW", "MIXED", "STATEMENT"])
def test_a_replica_repeats_cascades(lab, binlog_format):
    primary, replica = primary_and_replica(lab)
    connect(primary, replica)
    primary.run(f"SET GLOBAL binlog_format = '{binlog_format}'", *TABLES)
    clients = [FamilyClient(primary, number, STEPS, 0) for number in range(4)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert sum(client.committed for client in clients) > STEPS
    next_child = (
        "SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = 'c'"
    )
    assert primary.value(next_child) > STEPS
    primary.run(*LAST_FAMILY)
    wait_for_replica(primary, replica, 120)
    assert replica.run("SELECT c.p, c.u FROM d.c JOIN d.g ON g.c = c.id WHERE c.p >= 1000") == [(1001, 1002)]
    assert database_digests(replica, "d") == database_digests(primary, "d")
    orphans = "SELECT COUNT(*) FROM d.c WHERE p IS NOT NULL AND p NOT IN (SELECT id FROM d.p)"
    assert (primary.value(orphans), replica.value(orphans)) == (0, 0)
