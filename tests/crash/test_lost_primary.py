"""Goal:   a replica of a primary that was lost and restored from the bucket goes on where it was, or stops with an
        error. It never says that all is well while its rows differ.
Method: the data directory and the binary log of a primary are deleted. A new server on its address opens the bucket,
        and its GTIDs pass those that the replica has seen.
"""

from __future__ import annotations

from harness.process import wait_until
from harness.server import Server

OUTSIDE_OF_BINARY_LOG = 1236


def slave_status(replica: Server) -> dict[str, str]:
    connection = replica.connect()
    with connection.cursor() as cursor:
        cursor.execute("SHOW SLAVE STATUS")
        names = [column[0] for column in cursor.description]
        return {name: str(value) for name, value in zip(names, cursor.fetchall()[0], strict=True)}


def rows(server: Server) -> list[tuple]:
    return server.run("SELECT id FROM d.t ORDER BY id")


class Pair:
    """A primary whose tables are in a bucket, and its replica."""

    def __init__(self, lab, durability: str):
        self.primary = lab.s3_server(
            lab.store(), "primary", server_id=1, log_bin="binlog", atoll_durability=durability
        ).start()
        self.replica = lab.server("replica", server_id=2).start()
        self.allow_replica()
        self.primary.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=ATOLL")
        self.replica.run(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.primary.port}, MASTER_USER='replica', "
            "MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1",
            "START SLAVE",
        )

    def allow_replica(self) -> None:
        """Users are not in the bucket."""
        self.primary.run(
            "SET sql_log_bin = 0",
            "CREATE USER replica@'127.0.0.1'",
            "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'",
        )

    def insert(self, numbers: range) -> None:
        for number in numbers:
            self.primary.run(f"INSERT INTO d.t VALUES ({number})")

    def wait_for_replica(self) -> None:
        wait_until(lambda: rows(self.replica) == rows(self.primary), 60, "the replica to have all rows")

    def lose_primary(self) -> None:
        self.replica.run("STOP SLAVE")
        self.primary.kill()
        self.primary.wipe()
        self.primary.start(atoll_take_over="ON")
        self.allow_replica()


def test_a_replica_goes_on_with_the_restored_primary(lab):
    pair = Pair(lab, "sync")
    pair.insert(range(1, 16))
    pair.wait_for_replica()
    last = int(slave_status(pair.replica)["Gtid_IO_Pos"].rsplit("-", 1)[1])
    pair.lose_primary()
    # If GTIDs began again, the new transactions with the numbers up to `last` would never reach the replica.
    pair.insert(range(100, 100 + last + 10))
    pair.replica.run("START SLAVE")
    pair.wait_for_replica()
    status = slave_status(pair.replica)
    assert (status["Slave_IO_Running"], status["Slave_SQL_Running"]) == ("Yes", "Yes"), status
    assert len(rows(pair.replica)) == 15 + last + 10


def test_a_replica_that_has_more_than_the_bucket_stops_with_an_error(lab):
    pair = Pair(lab, "local")
    pair.insert(range(1, 5))
    pair.primary.run("SELECT ATOLL_SNAPSHOT('all')")
    pair.insert(range(5, 9))
    pair.wait_for_replica()
    pair.lose_primary()
    assert rows(pair.primary) == [(number,) for number in range(1, 5)]
    pair.insert(range(100, 102))
    pair.replica.run("START SLAVE")
    wait_until(lambda: slave_status(pair.replica)["Slave_IO_Running"] == "No", 60, "the replica to stop")
    assert slave_status(pair.replica)["Last_IO_Errno"] == str(OUTSIDE_OF_BINARY_LOG)
