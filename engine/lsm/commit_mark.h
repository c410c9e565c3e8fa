// A commit mark: what the log says about a commit besides its changes (time, GTID, position in the binary
// log). RocksDB writes a group of commits as one log record. In this record, a mark stands behind the changes
// of each commit, so that a restore can stop at one transaction.
// Bytes: docs/internals/formats-bucket.md, FMT-W12. The reader is crates/objstore/src/protocol/wal/marks.rs.
#pragma once

#include <rocksdb/write_batch.h>

#include <cstdint>
#include <optional>
#include <string>

namespace atoll::lsm {

struct Gtid {
  uint32_t domain = 0;
  uint32_t server = 0;
  uint64_t sequence = 0;
  bool operator==(const Gtid &) const = default;
};

// The position in this server's binary log right behind the events of the transaction.
struct BinlogPosition {
  uint64_t file = 0;  // the number that ends the file's name
  uint64_t offset = 0;
  bool operator==(const BinlogPosition &) const = default;
};

struct CommitMark {
  std::optional<Gtid> gtid;
  std::optional<BinlogPosition> binlog;
  // True if an earlier process decided to commit, but stopped before the commit was in the log. The
  // transaction's GTID is then only in the binary log, beside its XID.
  bool is_recovered = false;
};

// Returns the bytes of `mark`, for a commit at `time_us` (microseconds since 1970): at least 8, at most 48.
std::string encode(const CommitMark &mark, uint64_t time_us);

// Appends `mark`, with the present time, to the changes in `batch`. RocksDB writes the mark to the log only,
// never to a table file. Errors: those of a batch in memory that becomes too large.
rocksdb::Status put_mark(rocksdb::WriteBatch *batch, const CommitMark &mark);

}  // namespace atoll::lsm
