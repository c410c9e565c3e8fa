// Access to rows without locks and transactions: writes of batches, snapshots, and syncs of the WAL.
#pragma once

#include <rocksdb/utilities/transaction_db.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "lsm/commit_mark.h"
#include "lsm/family.h"

namespace atoll::lsm {

// Threads: any. from_rocksdb() translates a rocksdb::Status into a Code, which tells the caller how to react.
class Rows {
 public:
  virtual ~Rows() = default;

  virtual Family *catalog_family() = 0;          // definitions of all tables
  virtual Family *shared_family() = 0;           // small tables; each has a key prefix of its own
  virtual Family *temp_family() = 0;             // TEMPORARY tables; each has a key prefix of its own
  virtual Family *find_family(uint32_t id) = 0;  // nullptr: no such family

  // Writes the batch atomically. Requires for main: the caller holds commit_gate() shared.
  rocksdb::Status write(Side side, const rocksdb::WriteOptions &options, rocksdb::WriteBatch *batch);
  // The caller must pass the snapshot to release_snapshot() with the same side.
  const rocksdb::Snapshot *take_snapshot(Side side);
  void release_snapshot(Side side, const rocksdb::Snapshot *snapshot);
  uint64_t newest_sequence();  // sequence number of the newest committed write to main
  // Begins a RocksDB transaction on main, for two-phase commit: its changes form one section of the log,
  // which is prepared, and committed or rolled back later. The transaction takes no locks.
  std::unique_ptr<rocksdb::Transaction> begin_section();
  // Returns the sections that recovery found prepared and undecided. Call once, after open().
  std::vector<std::unique_ptr<rocksdb::Transaction>> prepared_sections();
  // The default family of main. It has the markers of spilled transactions, which only recovery reads.
  rocksdb::ColumnFamilyHandle *marker_handle();
  rocksdb::Status get_marker(const rocksdb::Slice &key, std::string *value);

  // A thread that writes to the log of main holds this lock shared. The functions of Families take the lock
  // themselves. commit_ingestion() holds it exclusively.
  virtual SharedMutex *commit_gate() = 0;

  // Writes to main without row locks. Takes commit_gate() shared and adds a commit mark that has only the
  // time. For data that no other thread knows, or whose writers the caller serializes. `sync`: also syncs the
  // log. Errors: as a write.
  Status write_unlocked(rocksdb::WriteBatch *batch, bool sync);
  // Writes an entry to the log that changes nothing, with `mark`: all commits up to its GTID are in the log
  // before it. Errors: as a write.
  Status write_mark(const CommitMark &mark);

  // The sequence number of the oldest snapshot of main that is not released; UINT64_MAX: there is no
  // snapshot.
  virtual uint64_t oldest_snapshot() = 0;

  // Syncs the WAL: after the call, everything that was written before it is on the local disk. Concurrent
  // calls share a sync. After a failed sync, every write fails until the database is opened again.
  virtual Status sync_wal() = 0;

  // True if RocksDB delays or stops writers now, because flushes or compactions cannot keep up. Takes
  // RocksDB's mutex, so commits must not call this function on their usual path.
  virtual bool holds_writers_back() = 0;

 private:
  friend struct Raw;
  Status write_marked(rocksdb::WriteBatch *batch, bool sync);
  virtual rocksdb::TransactionDB *db(Side side) = 0;
};

}  // namespace atoll::lsm
