// A commit mark: what the log says about a commit besides its changes (time, GTID, position in the binary
// log). RocksDB writes a group of commits as one log record. In this record, a mark follows the changes of
// each commit, so that a restore can stop at one transaction.
// Bytes: docs/internals/formats-bucket.md, FMT-W12. The reader is crates/objstore/src/protocol/wal/marks.rs.
#pragma once

#include <rocksdb/write_batch.h>

#include <cstdint>
#include <optional>
#include <string>

namespace atoll::lsm {

// A global transaction id of MariaDB.
struct Gtid {
  uint32_t domain = 0;
  uint32_t server = 0;
  uint64_t sequence = 0;
  bool operator==(const Gtid &) const = default;
};

// The position in this server's binary log right after the events of the transaction.
struct BinlogPosition {
  uint64_t file = 0;  // the number that ends the file's name
  uint64_t offset = 0;
  bool operator==(const BinlogPosition &) const = default;
};

// The mark of one commit. The handler makes it, and the transaction writes it into the log with its
// changes.
struct CommitMark {
  // nullopt: the transaction has no GTID, or this process does not know it.
  std::optional<Gtid> gtid;
  // nullopt: the transaction is not in this server's binary log, or its position there is not known.
  std::optional<BinlogPosition> binlog;
  // True if an earlier process decided to commit, but stopped before the commit was in the log. The
  // transaction's GTID is then only in the binary log, beside its XID.
  bool is_recovered = false;
};

// Returns the bytes of `mark`, for a commit at `time_us` (microseconds since 1970): at least 8, at most 48.
std::string encode(const CommitMark &mark, uint64_t time_us);

// Appends `mark`, with the present time, to the changes in `batch`. RocksDB writes the mark to the log only,
// never to a table file. Errors: only if `batch` has a size limit and exceeds it.
rocksdb::Status put_mark(rocksdb::WriteBatch *batch, const CommitMark &mark);

}  // namespace atoll::lsm
