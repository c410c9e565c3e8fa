"""Makes and compares FileStorages (Data.fs files) for bench/neo.py. Runs under Python 2.7, as NEO does.

    python data_fs.py make SEED TRANSACTIONS FILE
    python data_fs.py compare FILE FILE

Both print one line: transactions, records and bytes of the records. If the files do not have the same
transactions with the same records, `compare` prints the first difference and exits with 1.
"""

import random
import sys
from io import BytesIO

from neo.tests.stat_zodb import PROD1
from ZODB.FileStorage import FileStorage

SAMPLE_BYTES = 100000
# Each byte has four random bits, so zlib compresses the text to half its size.
SYMBOLS = "0123456789abcdef"


def make(seed, transactions, path):
    """Writes `transactions` transactions, with the sizes and frequencies that NEO's authors found in a
    production Data.fs."""
    source = random.Random(seed)
    sample = "".join(source.choice(SYMBOLS) for _ in range(SAMPLE_BYTES)).encode("ascii")
    target = FileStorage(path, create=True)
    target.copyTransactionsFrom(PROD1(source).as_storage(transactions, BytesIO(sample)))
    target.close()
    print("{} {} {}".format(*count(path)))


def count(path):
    storage = FileStorage(path, read_only=True)
    sizes = [[len(record.data) for record in transaction] for transaction in storage.iterator()]
    storage.close()
    return len(sizes), sum(map(len, sizes)), sum(map(sum, sizes))


def transactions_of(storage):
    for transaction in storage.iterator():
        records = [(record.oid, record.tid, record.data) for record in transaction]
        yield transaction.tid, transaction.user, transaction.description, sorted(records)


def compare(left_path, right_path):
    left, right = (FileStorage(path, read_only=True) for path in (left_path, right_path))
    ours, theirs = transactions_of(left), transactions_of(right)
    while True:
        a, b = next(ours, None), next(theirs, None)
        if a != b:
            sys.exit("a transaction is not as it was: " + repr((a or b)[0]))
        if a is None:
            break
    print("{} {} {}".format(*count(right_path)))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        compare(sys.argv[2], sys.argv[3])
