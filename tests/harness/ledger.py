"""A ledger outside of the server: the transactions that clients have sent, which of them were acknowledged,
and the check after a crash.

Each client numbers its transactions 1, 2, 3, ...; a transaction writes its number together with its
changes. After a crash, let k be the highest number found: the rows must be exactly those of transactions
1..k. This check finds lost, incomplete and resurrected transactions.

Rules for k, after a start from local disk or from the bucket alone:
1. local disk: k is the last acknowledged number, or higher by one (the transaction in flight).
2. bucket: k may be lower. But every transaction is there that was acknowledged more than the enforced lag
   before the last acknowledged one was *sent*. (The engine checks its lag between sending and
   acknowledgement. So this rule needs no allowance for slow clients.)
3. bucket: only the newest transactions are missing. No transaction is there that was sent after a missing one
   had been acknowledged.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field


class LedgerError(AssertionError):
    """The server's content contradicts the ledger."""


@dataclass
class Entry:
    """One transaction. `apply` changes a model state as the transaction changes the tables.

    Units: seconds of time.monotonic(). `acked_at` is None until the transaction is acknowledged.
    """

    client: str
    number: int
    kind: str
    apply: Callable[[dict], None]
    sent_at: float
    acked_at: float | None = None


@dataclass
class ClientLedger:
    """The transactions of one client since `base`, which is the state that was verified after the last crash.

    Threads: written by the client's thread, read after it has ended.
    """

    client: str
    base: dict
    base_number: int = 0
    entries: list[Entry] = field(default_factory=list)

    def last_acked(self) -> int:
        """Returns the number of the last acknowledged transaction."""
        acked = [entry.number for entry in self.entries if entry.acked_at is not None]
        return acked[-1] if acked else self.base_number

    def last_sent(self) -> int:
        return self.entries[-1].number if self.entries else self.base_number

    def state_at(self, number: int) -> dict:
        """Returns the content of the tables after the transactions up to `number`."""
        state = copy.deepcopy(self.base)
        for entry in self.entries:
            if entry.number <= number:
                entry.apply(state)
        return state

    def rebase(self, number: int) -> None:
        """Makes the state after transaction `number` the new base, and forgets all entries."""
        self.base = self.state_at(number)
        self.base_number = number
        self.entries = []


def check_local(ledger: ClientLedger, number: int) -> None:
    """Checks rule 1: `number` is the last acknowledged transaction or one sent later."""
    if not ledger.last_acked() <= number <= ledger.last_sent():
        raise LedgerError(
            f"client {ledger.client}: found transaction {number}, acknowledged up to {ledger.last_acked()}, "
            f"sent up to {ledger.last_sent()}"
        )


def check_bucket(ledgers: list[ClientLedger], found: dict[str, int], lag_max_s: float) -> float:
    """Checks rules 2 and 3. Returns the age in seconds of the oldest lost transaction; 0 if none is lost."""
    entries = [entry for ledger in ledgers for entry in ledger.entries]
    acked = [entry for entry in entries if entry.acked_at is not None]
    missing = [entry for entry in acked if entry.number > found[entry.client]]
    for ledger in ledgers:
        if not ledger.base_number <= found[ledger.client] <= ledger.last_sent():
            raise LedgerError(
                f"client {ledger.client}: found {found[ledger.client]}, "
                f"verified earlier {ledger.base_number}, sent {ledger.last_sent()}"
            )
    if not missing:
        return 0.0
    oldest = min(missing, key=_acked_at)
    newest_check = max(acked, key=_acked_at).sent_at
    age_s = newest_check - _acked_at(oldest)
    if age_s > lag_max_s:
        raise LedgerError(
            f"bucket lost {oldest.client}/{oldest.number} ({oldest.kind}), acknowledged {age_s:.3f} s before "
            f"the last commit was sent; the enforced lag is {lag_max_s} s; {len(missing)} are missing"
        )
    for entry in entries:
        if entry.number <= found[entry.client] and entry.sent_at > _acked_at(oldest):
            raise LedgerError(
                f"bucket has {entry.client}/{entry.number}, sent after {oldest.client}/{oldest.number} "
                "had been acknowledged, which is missing: more than a suffix is lost"
            )
    return max(age_s, 0.0)


def _acked_at(entry: Entry) -> float:
    assert entry.acked_at is not None
    return entry.acked_at


def explain(expected: dict, found: dict) -> str:
    """Returns the first few differences between two states (dicts of dicts)."""
    lines = _differences(expected, found)
    return "; ".join(lines[:8]) + (f"; and {len(lines) - 8} more" if len(lines) > 8 else "")


def differences_count(expected: dict, found: dict) -> int:
    """Returns how many values of two states (dicts of dicts) differ."""
    return len(_differences(expected, found))


def _differences(expected: dict, found: dict) -> list[str]:
    lines = []
    for table in sorted(set(expected) | set(found)):
        want, have = expected.get(table, {}), found.get(table, {})
        if want == have:
            continue
        if not isinstance(want, dict) or not isinstance(have, dict):
            lines.append(f"{table}: expected {want!r}, found {have!r}")
            continue
        for key in sorted(set(want) | set(have), key=str):
            if want.get(key) != have.get(key):
                lines.append(f"{table}[{key}]: expected {want.get(key)!r}, found {have.get(key)!r}")
    return lines
