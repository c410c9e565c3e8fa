"""The objects of bench/blob.py, their transactions and their values. All of them are made from one seed.

Values are made when they are needed and then discarded; only their hashes and sizes are kept. Invariant: the
same seed makes the same objects in the same order, so that all setups import the same objects.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

BYTES_MIN, BYTES_MAX = 1 << 10, 10 << 20
OBJECTS_PER_TRANSACTION_MAX = 100
REVISED_SHARE = 0.2  # of the imports: a new revision of an existing object
REPEATED_SHARE = 0.02  # of the values: the same as an earlier one
DELETED_SHARE = 1 / 3
PARTITIONS = 12
PIECE_BYTES = 512  # each piece of a value has random bytes first, then repetitions of one byte


@dataclass(frozen=True)
class Revision:
    """One object as one transaction stored it."""

    tid: int
    oid: int
    data_id: int  # of the first value with this hash

    @property
    def partition(self) -> int:
        return self.oid % PARTITIONS


@dataclass(frozen=True)
class NewObject:
    """A revision with its value, to be imported. `repeated`: an earlier revision has the same value."""

    revision: Revision
    own_id: int
    hash: bytes
    value: bytes
    repeated: bool


def log_uniform(source: random.Random, least: int, most: int) -> int:
    return min(int(math.exp(source.uniform(math.log(least), math.log(most + 1)))), most)


def make_value(source: random.Random, size: int, random_share: float) -> bytes:
    """Returns `size` bytes. The share `random_share` of them is random; the other bytes compress to almost
    nothing."""
    if random_share >= 1:
        return source.randbytes(size)
    pieces = -(-size // PIECE_BYTES)
    random_bytes = round(PIECE_BYTES * random_share)
    noise = source.randbytes(pieces * random_bytes)
    filler = b"x" * (PIECE_BYTES - random_bytes)
    parts = [noise[i * random_bytes : (i + 1) * random_bytes] + filler for i in range(pieces)]
    return b"".join(parts)[:size]


class Objects:
    """The objects of one import. transactions() makes them, and the other methods describe what it has
    made."""

    def __init__(self, seed: int, payload_bytes: int, random_share: float):
        self._source = random.Random(seed)
        self._payload_bytes = payload_bytes
        self._random_share = random_share
        self._repeatable: list[tuple[int, int, int]] = []  # data_id, seed, size of earlier values
        self.revisions: list[Revision] = []
        self.oids = 0
        self.values: dict[int, tuple[bytes, int]] = {}  # by data_id: hash and size
        self.deleted: set[Revision] = set()
        self.stored_bytes = 0

    def transactions(self) -> Iterator[list[NewObject]]:
        """Yields the objects of one transaction after the other, until their values have `payload_bytes`."""
        tid = 0
        while self.stored_bytes < self._payload_bytes:
            tid += 1
            wanted = log_uniform(self._source, 1, OBJECTS_PER_TRANSACTION_MAX)
            made: list[NewObject] = []
            while len(made) < wanted and self.stored_bytes < self._payload_bytes:
                made.append(self._make(tid, {new.revision.oid for new in made}))
            yield made

    def _make(self, tid: int, taken: set[int]) -> NewObject:
        own_id = len(self.revisions) + 1
        repeated = bool(self._repeatable) and self._source.random() < REPEATED_SHARE
        if repeated:
            data_id, seed, size = self._source.choice(self._repeatable)
        else:
            seed, size = self._source.getrandbits(64), log_uniform(self._source, BYTES_MIN, BYTES_MAX)
            data_id = own_id
            self._repeatable.append((data_id, seed, size))
        value = make_value(random.Random(seed), size, self._random_share)
        digest = hashlib.sha1(value).digest()
        if not repeated:
            self.values[data_id] = (digest, size)
            self.stored_bytes += size
        revision = Revision(tid, self._choose_oid(taken), data_id)
        self.revisions.append(revision)
        return NewObject(revision, own_id, digest, value, repeated)

    def _choose_oid(self, taken: set[int]) -> int:
        if self.oids and self._source.random() < REVISED_SHARE:
            oid = self._source.randrange(self.oids) + 1
            if oid not in taken:  # a transaction stores an object once
                return oid
        self.oids += 1
        return self.oids

    # ---- The live objects --------------------------------------------------------------------------------

    def live(self) -> list[Revision]:
        """Returns the revisions that were not deleted."""
        return [revision for revision in self.revisions if revision not in self.deleted]

    def live_values(self) -> set[int]:
        return {revision.data_id for revision in self.live()}

    def live_bytes(self) -> int:
        return sum(self.values[data_id][1] for data_id in self.live_values())

    def choose_deleted(self) -> list[Revision]:
        """Chooses a third of the revisions at random, marks them as deleted, and returns them in the order of
        their keys."""
        count = round(len(self.revisions) * DELETED_SHARE)
        chosen = self._source.sample(self.revisions, count)
        self.deleted.update(chosen)
        return sorted(chosen, key=lambda revision: (revision.partition, revision.tid, revision.oid))
