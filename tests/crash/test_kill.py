"""Goal:   after kill -9 at any moment, a start from local disk has all acknowledged changes, and one from the
        bucket alone lacks no more than the lag.
Method: seeded rounds of mixed load (five writers, one of them DDL) ended by kill -9; every round is reopened
        from local disk, every tenth from the bucket alone with the data directory deleted; the content is
        compared with a ledger kept outside the server. The second half runs with the binary log on.

ATOLL_KILL_ROUNDS changes the number of rounds, ATOLL_KILL_SEED repeats a run, ATOLL_KILL_BUCKET_EVERY=n
starts each n-th round from the bucket alone.
"""

from __future__ import annotations

import os
import random
import time

from harness import ddl_load, workload
from harness.ledger import ClientLedger, LedgerError, check_bucket, check_local, explain
from harness.process import wait_until
from harness.server import Server

ROUNDS = int(os.environ.get("ATOLL_KILL_ROUNDS", "100"))
SEED = int(os.environ.get("ATOLL_KILL_SEED", str(random.randrange(1 << 30))))
BUCKET_EVERY = int(os.environ.get("ATOLL_KILL_BUCKET_EVERY", "10"))
LAG_MAX_MS = 500
WRITERS = 4
BINLOG = {"log-bin": "binlog", "sync-binlog": 1, "server-id": 1}


class KillTest:
    """The data that all rounds share: the server, the ledgers, and the losses so far."""

    def __init__(self, lab):
        self.random = random.Random(SEED)
        self.server: Server = lab.s3_server(
            lab.store(), atoll_durability="async", atoll_lag_max_ms=LAG_MAX_MS, atoll_lock_wait_timeout=5
        )
        self.server.start()
        names = workload.client_names(WRITERS)
        workload.create_tables(self.server, "ATOLL", names)
        ddl_load.create_database(self.server)
        self.ledgers = {name: ClientLedger(name, workload.first_state()) for name in names}
        self.ddl_ledger = ClientLedger("ddl", {})
        self.binlog = False
        self.acked = 0
        self.oldest_lost_s = 0.0

    def round(self, index: int) -> None:
        if index == ROUNDS // 2:
            self.binlog = True
            self.server.stop()  # the log of two-phase commit may change only at a clean shutdown
            self._start()
        self._load_and_kill(f"{SEED}-{index}")
        if (index + 1) % BUCKET_EVERY == 0:
            self.server.wipe()
            self._start(atoll_take_over="ON")
            self._verify(from_bucket=True)
            self._forget_journal()
        else:
            self._start()
            self._verify(from_bucket=False)

    def _forget_journal(self) -> None:
        """Deletes the journal's rows, which would only become more, so that all rounds take the same time."""
        for name, ledger in self.ledgers.items():
            self.server.run(
                f"UPDATE progress SET number = {ledger.base_number} WHERE client = '{name}'",
                f"DELETE FROM journal WHERE client = '{name}'",
                database="load",
            )
            ledger.base["journal"] = {}

    def _start(self, **extra: object) -> None:
        self.server.start(**(BINLOG if self.binlog else {}), **extra)

    def _load_and_kill(self, seed: str) -> None:
        clients: list = [
            workload.Client(self.server, ledger, f"{seed}-{name}") for name, ledger in self.ledgers.items()
        ]
        clients.append(ddl_load.DdlClient(self.server, self.ddl_ledger, "ATOLL", f"{seed}-ddl"))
        for client in clients:
            client.start()
        time.sleep(self.random.uniform(0.2, 1.6))
        # Until this server acknowledges a commit, the bucket may still lack changes that the previous server
        # left in its local log.
        wait_until(self._anything_acked, 30, "a transaction to be acknowledged", 0.01)
        workload.kill_under(self.server, clients)

    def _anything_acked(self) -> bool:
        return any(
            ledger.last_acked() > ledger.base_number for ledger in [*self.ledgers.values(), self.ddl_ledger]
        )

    def _verify(self, from_bucket: bool) -> None:
        found = {name: workload.read_number(self.server, name) for name in self.ledgers}
        definitions = ddl_load.read_state(self.server)
        steps = ddl_load.matching_numbers(self.ddl_ledger, definitions)
        if not steps:
            raise LedgerError(ddl_load.nearest(self.ddl_ledger, definitions))
        step = self._matching_step(found, steps, from_bucket)
        self._verify_content(found)
        self.acked += sum(ledger.last_acked() - ledger.base_number for ledger in self.ledgers.values())
        for name, ledger in self.ledgers.items():
            ledger.rebase(found[name])
        self.ddl_ledger.rebase(step)

    def _matching_step(self, found: dict[str, int], steps: list[int], from_bucket: bool) -> int:
        """Returns the newest DDL step that matches the definitions found and breaks no rule.

        Several steps may match. For example, a table that was created and dropped leaves no trace.
        """
        for step in reversed(steps):
            try:
                self._check_rules({**found, "ddl": step}, from_bucket)
                return step
            except LedgerError:
                if step == steps[0]:
                    raise
        raise AssertionError("no steps")

    def _check_rules(self, found: dict[str, int], from_bucket: bool) -> None:
        ledgers = [*self.ledgers.values(), self.ddl_ledger]
        if from_bucket:
            lost_s = check_bucket(ledgers, found, LAG_MAX_MS / 1000)
            self.oldest_lost_s = max(self.oldest_lost_s, lost_s)
            return
        for ledger in ledgers:
            check_local(ledger, found[ledger.client])

    def _verify_content(self, found: dict[str, int]) -> None:
        pot = dict.fromkeys(range(workload.POTS), 0)
        for name, ledger in self.ledgers.items():
            expected = ledger.state_at(found[name])
            for key, total in expected.pop("pot").items():
                pot[key] += total
            difference = explain(expected, workload.read_state(self.server, name))
            if difference:
                raise LedgerError(f"client {name} at transaction {found[name]}: {difference}")
        if pot != workload.read_pot(self.server):
            raise LedgerError(f"pot: {explain({'pot': pot}, {'pot': workload.read_pot(self.server)})}")
        differences = workload.index_differences(self.server)
        if differences:
            raise LedgerError(f"indexes: {differences}")


def test_kills_lose_nothing_acknowledged(lab):
    print(f"seed {SEED}, {ROUNDS} rounds")
    started = time.monotonic()
    test = KillTest(lab)
    for index in range(ROUNDS):
        try:
            test.round(index)
        except Exception as error:
            raise AssertionError(
                f"round {index} of seed {SEED}, binary log {'on' if test.binlog else 'off'}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if (index + 1) % BUCKET_EVERY == 0:
            print(
                f"round {index + 1}: {test.acked} transactions acknowledged, the oldest lost from the bucket "
                f"{test.oldest_lost_s * 1000:.0f} ms old, {time.monotonic() - started:.0f} s",
                flush=True,
            )
    assert test.acked > ROUNDS * 20, "the load was too thin to prove anything"
    test.server.stop()
