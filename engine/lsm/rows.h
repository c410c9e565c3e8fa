// Rows below locks and transactions: what writes them, and what keeps a state of them readable.
#pragma once

#include <rocksdb/utilities/transaction_db.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "lsm/family.h"

namespace atoll::lsm {

// Threads: any. rocksdb::Status: from_rocksdb() says what it asks the caller for.
class Rows {
 public:
  virtual ~Rows() = default;

  virtual Family *catalog_family() = 0;          // definitions of all tables
  virtual Family *shared_family() = 0;           // small tables, under a prefix each
  virtual Family *temp_family() = 0;             // TEMPORARY tables, under a prefix each
  virtual Family *find_family(uint32_t id) = 0;  // nullptr: no such family

  // Writes the batch in one step. Requires for main: the caller holds commit_gate() shared.
  rocksdb::Status write(Side side, const rocksdb::WriteOptions &options, rocksdb::WriteBatch *batch);
  // The caller gives the snapshot back to release_snapshot() of the same side.
  const rocksdb::Snapshot *take_snapshot(Side side);
  void release_snapshot(Side side, const rocksdb::Snapshot *snapshot);
  uint64_t newest_sequence();  // of the newest committed write to main
  // Begins a section of main's log that can be prepared, and is committed or rolled back later. It takes no
  // locks.
  std::unique_ptr<rocksdb::Transaction> begin_section();
  std::vector<std::unique_ptr<rocksdb::Transaction>> prepared_sections();  // once, after open()
  // The family for what recovery alone reads: the markers of spilled transactions.
  rocksdb::ColumnFamilyHandle *marker_handle();
  rocksdb::Status get_marker(const rocksdb::Slice &key, std::string *value);

  // A writer to main holds this shared while it writes. Functions of Family and BulkLoad do so themselves.
  virtual SharedMutex *commit_gate() = 0;

  // Writes to main without row locks, with commit_gate() held shared and an empty commit mark. For data that
  // nobody but the caller knows, or whose writes the caller puts in order. Errors: those of a write.
  Status write_unlocked(rocksdb::WriteBatch *batch, bool sync);

  // The sequence number of the oldest snapshot of main that is held; UINT64_MAX: none is.
  virtual uint64_t oldest_snapshot() = 0;

  // Syncs the WAL: all that was written before the call is on the local disk after it. Calls at the same time
  // share a sync. After a sync that failed, every write fails until the database is opened again.
  virtual Status sync_wal() = 0;

  // Whether RocksDB delays or stops writers, because flushes or compactions are behind. Takes RocksDB's
  // mutex, so the usual path of a commit must not call it.
  virtual bool holds_writers_back() = 0;

 private:
  friend struct Raw;
  virtual rocksdb::TransactionDB *db(Side side) = 0;
};

}  // namespace atoll::lsm
