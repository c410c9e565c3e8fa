// What a commit's record in the log says about the commit besides its changes, so that a restore can stop at
// one transaction: RocksDB writes a group of commits as one record, and the marks stay between their changes.
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

// A position in this server's binary log, right behind the events of the transaction.
struct BinlogPosition {
  uint64_t file = 0;  // the number that ends the file's name
  uint64_t offset = 0;
  bool operator==(const BinlogPosition &) const = default;
};

struct CommitMark {
  std::optional<Gtid> gtid;
  std::optional<BinlogPosition> binlog;
  // An earlier process decided on this commit and stopped before it was in the log. Its GTID stands in the
  // binary log only, beside its XID.
  bool is_recovered = false;
};

// Returns the bytes of `mark`, for a commit at `time_us` (microseconds since 1970): at least 8, at most 48.
std::string encode(const CommitMark &mark, uint64_t time_us);

// Puts `mark` with the present time behind what `batch` has. It goes to the log only, never to a table.
// Errors: those of a batch in memory that becomes too large.
rocksdb::Status put_mark(rocksdb::WriteBatch *batch, const CommitMark &mark);

}  // namespace atoll::lsm
