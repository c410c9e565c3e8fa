// The one implementation of Transaction and Manager. Only files of this folder include this header.
//
// Own writes are kept in a WriteSet, and become a rocksdb::WriteBatch at commit. A rocksdb::Transaction
// exists only between prepare and the end of a two-phase commit. It is needed there, because RocksDB can
// recover nothing else.
//
// Invariants
//   TXN-1  Locks are released after the commit is visible. commit() and rollback() of an unprepared
//          transaction release all its locks, also when they fail.
//   TXN-2  A prepared transaction ends only by commit_prepared() or rollback_prepared(). If the call fails,
//          the transaction stays prepared and keeps its locks. It also does so when its object is destroyed.
//   TXN-3  See foreign_writes.h: other threads must find the writes of a transaction until these are visible
//          or undone. They look into the write set, so it changes only under writes_mutex_.
// Tests: transaction_test.cc, prepared_test.cc, range_test.cc.
#pragma once

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "txn/locks/foreign_writes.h"
#include "txn/reads/read_pool.h"
#include "txn/writes/spill.h"
#include "txn/transaction.h"
#include "txn/writes/write_set.h"

namespace atoll::txn {

class ManagerImpl;

// own_result(): the result of a read that has found an own write: its value, or kNotFound if it is a removal.
// read_result(): the result for RocksDB's answer.
Status own_result(const OwnWrite &own, rocksdb::PinnableSlice *value);
Status read_result(const rocksdb::Status &status);
Status dropped_family();
Status not_found();

// Visits the changes in the batch of a prepared transaction. Derived classes define what happens with each
// key; this class ignores everything in the batch that is not a change.
class PreparedBatchReader : public rocksdb::WriteBatch::Handler {
 public:
  rocksdb::Status MarkBeginPrepare(bool) override { return {}; }
  rocksdb::Status MarkEndPrepare(const rocksdb::Slice &) override { return {}; }
  rocksdb::Status MarkNoop(bool) override { return {}; }
  rocksdb::Status MarkCommit(const rocksdb::Slice &) override { return {}; }
  rocksdb::Status MarkRollback(const rocksdb::Slice &) override { return {}; }
  void LogData(const rocksdb::Slice &) override {}
};

// Who makes and uses it: see Transaction and Manager.
class TransactionImpl final : public Transaction {
 public:
  TransactionImpl(ManagerImpl *manager, uint64_t id, void *user);
  // A prepared transaction found at open; its locks are not taken yet.
  TransactionImpl(ManagerImpl *manager, uint64_t id, std::unique_ptr<rocksdb::Transaction> recovered);
  ~TransactionImpl() override;

  uint64_t id() const override { return id_; }
  LockOwner *lock_owner() override { return &owner_; }

  void make_snapshot() override;
  void release_snapshot() override;
  bool has_snapshot() const override { return snapshot_ != nullptr; }

  Status get(lsm::Family *family, std::string_view key, ReadAt at, rocksdb::PinnableSlice *value) override;
  Status find_locked(lsm::Family *family, std::string_view key, std::string_view end,
                     AbsentRange *range) override;
  std::vector<size_t> multi_get(lsm::Family *family, const std::vector<rocksdb::Slice> &keys, ReadAt at,
                                std::vector<rocksdb::PinnableSlice> *values,
                                std::vector<Status> *statuses) override;
  std::unique_ptr<Cursor> scan(lsm::Family *family, ReadAt at, const ScanOptions &options) override;
  const rocksdb::Snapshot *snapshot(lsm::Side side) override;
  bool has_writes(lsm::Side side) const override;
  bool is_spilled() const override;

  Status put(lsm::Family *family, std::string_view key, std::string_view value,
             size_t unique_length) override;
  Status remove(lsm::Family *family, std::string_view key, size_t unique_length) override;
  Status insert(lsm::Family *family, std::string_view key, std::string_view value, const LockWait &wait,
                size_t unique_length) override;
  Obstacle lock_range(lsm::Family *family, std::string_view lower, std::string_view upper, bool forward,
                      std::optional<RowInRange> row) override;
  uint64_t commits_seen(const lsm::Family *family) const override;
  Status has_written(const lsm::Family *family, std::string_view key, bool *found) const override;
  bool has_written_in(const lsm::Family *family, std::string_view lower,
                      std::string_view upper) const override;
  uint64_t write_count() const override { return writes_shown_.load(std::memory_order_relaxed); }

  size_t set_savepoint() override;
  Status rollback_to_savepoint(size_t number) override;
  void release_savepoint(size_t number) override;
  void forget_savepoint(size_t number) override;

  void set_mark(const lsm::CommitMark &mark) override { mark_ = mark; }
  Status commit(bool sync) override;
  void rollback() override;

  Status prepare(std::string_view xid, bool sync, bool is_decided_at_start, KeptLocks kept) override;
  bool is_prepared() const override { return prepared_.load(std::memory_order_relaxed); }
  Status commit_prepared(bool sync) override;
  Status rollback_prepared() override;
  uint64_t commit_position() const override { return commit_position_; }

  // For the manager.
  const std::string &xid() const { return xid_; }
  void detach();                           // the client has disconnected
  void become(TransactionImpl *prepared);  // takes over a prepared transaction whose object is being
                                           // destroyed
  void abandon();                          // at shutdown: the transaction stays prepared in the WAL
  // For a transaction found prepared at open: lock its rows, from its batch or from its spilled files.
  Status take_recovered_locks();
  Status take_spilled(const std::string &name);
  TransactionInfo describe() const;
  bool is_writer_of(const lsm::Family *family) const {
    return std::find(written_families_.begin(), written_families_.end(), family->id()) !=
           written_families_.end();
  }
  // Finds the transaction's first write in [lower, upper), or its last one if `forward` is false. Returns
  // false if there is none. Any thread.
  bool find_write(const lsm::Family *family, std::string_view lower, std::string_view upper, bool forward,
                  FoundWrite *found) const;

 private:
  friend class ManagerImpl;

  rocksdb::ReadOptions read_options(const lsm::Family *family, ReadAt at) const;
  Status check_write(std::string_view key, std::string_view value) const;
  Status write(lsm::Family *family, std::string_view key, const NewWrite &write);
  void write_locked(lsm::Family *family, std::string_view key, const NewWrite &write);
  Status search_absent(lsm::Family *family, std::string_view key, std::string_view end, uint64_t ended,
                       AbsentRange *range);
  // In transaction_ranges.cc, except read_from_database(), which is in reads/multi_get.cc.
  void use_family(lsm::Family *family);
  void count_writer(uint32_t family_id);
  KeptLocks note_written_locks(KeptLocks kept);
  void keep_extents();  // replaces a large write set by the first and last key of each index (WriteExtents)
  void forget_writes();
  std::vector<size_t> read_from_database(lsm::Family *family, const std::vector<rocksdb::Slice> &keys,
                                         ReadAt at, std::vector<size_t> *missing,
                                         std::vector<rocksdb::PinnableSlice> *values,
                                         std::vector<Status> *statuses);

  // In transaction_spill.cc.
  Status bound_memory();
  Status spill();
  Status spill_rest();
  Status find_own(const lsm::Family *family, std::string_view key, bool *found,
                  rocksdb::PinnableSlice *value) const;
  Status commit_spilled(bool sync);
  Status prepare_spilled(std::string_view xid);
  Status prepare_ingestion(bool with_marker);
  Status commit_ingestion();
  Status commit_prepared_main(bool sync);
  Status write_spilled_temp();
  Status visit_temp_keys(const std::function<Status(lsm::Family *, std::string_view)> &visit);

  rocksdb::Status fill_batch(lsm::Side side, rocksdb::WriteBatch *batch) const;
  Status write_side(lsm::Side side, bool sync);
  Status commit_with_temp(const std::function<Status()> &commit_main);
  Status prepare_main(std::string_view xid, bool keeps_unique_starts);
  using SectionFiller = std::function<rocksdb::Status(rocksdb::Transaction *)>;
  Status prepare_section(std::string_view xid, const SectionFiller &fill);
  Status restore_temp(const rocksdb::Snapshot *before);
  void set_write_count();
  void finish();  // forgets the writes, releases snapshot and locks

  ManagerImpl *const manager_;
  const uint64_t id_;
  const uint64_t started_us_;
  LockOwner owner_;
  const rocksdb::Snapshot *snapshot_ = nullptr;  // of main; temp needs none, see snapshot()
  mutable Mutex writes_mutex_;                   // held to change writes_ or extents_
  std::shared_ptr<WriteSet> writes_;             // shared with open cursors; nullptr: no writes in memory
  std::unique_ptr<WriteExtents> extents_;        // of writes that are no longer in writes_
  std::unique_ptr<Spill> spill_;                 // nullptr: no writes are on local disk
  std::unique_ptr<lsm::Ingestion> ingestion_;    // of the files in spill_, while it waits for its commit
  Status lost_;                                  // not ok: found prepared at open, and its files are gone
  std::vector<uint32_t> written_families_;       // families of main whose FamilyActivity counts this writer
  // The prepared section in RocksDB's log; nullptr: not prepared, or no writes to main.
  std::unique_ptr<rocksdb::Transaction> two_phase_;
  lsm::CommitMark mark_;                   // for the commit, see set_mark()
  std::string xid_;                        // of a prepared transaction
  std::atomic<bool> prepared_{false};      // true: prepare() has succeeded, and the transaction has not ended
  std::atomic<uint64_t> writes_shown_{0};  // what write_count() returns, on any thread
  uint64_t commit_position_ = 0;
};

// See Manager. Knows all living transactions, so that one can search the writes of others (TXN-3).
class ManagerImpl final : public Manager {
 public:
  ManagerImpl(lsm::Rows *rows, lsm::RunFiles *run_files) : rows_(rows), run_files_(run_files) {}
  ~ManagerImpl() override;
  Status recover();

  LockTable *locks() override { return &locks_; }
  std::unique_ptr<Transaction> begin(void *user) override;
  std::vector<std::string> prepared_xids() override;
  void detach_prepared(std::unique_ptr<Transaction> transaction) override;
  std::unique_ptr<Transaction> take_prepared(std::string_view xid) override;
  std::string prepared_writer(lsm::Family *family, std::string_view lower, std::string_view upper) override;
  std::string outermost_uncommitted(lsm::Family *family, std::string_view lower, std::string_view upper,
                                    bool last) override;
  std::vector<TransactionInfo> list() override;
  void set_wal_position(std::function<uint64_t()> position) override { wal_position_ = std::move(position); }

  void set_write_bytes_max(uint64_t bytes) override {
    write_bytes_max_.store(bytes, std::memory_order_relaxed);
  }

  void set_transaction_memory(uint64_t bytes) override;

  lsm::Rows *rows() const { return rows_; }
  lsm::RunFiles *run_files() const { return run_files_; }
  // The size of a write set at which it goes to local disk: half of a transaction's memory. 0: no limit.
  uint64_t spill_bytes() const { return spill_bytes_.load(std::memory_order_relaxed); }
  std::string new_spill_directory();
  uint64_t write_bytes_max() const { return write_bytes_max_.load(std::memory_order_relaxed); }
  ReadPool *read_pool() { return &read_pool_; }
  FamilyActivity *activity() { return &activity_; }
  QueueHeads *queue_heads() { return &queue_heads_; }
  // Finds the uncommitted write of a transaction other than `self` that comes first in the direction of the
  // scan, and cuts [*lower, *upper) to the part that the scan reaches before this write. Returns false if
  // there is no such write.
  bool find_foreign_write(const TransactionImpl *self, const lsm::Family *family, std::string *lower,
                          std::string *upper, bool forward, std::string *entry);
  uint64_t wal_position() const { return wal_position_ ? wal_position_() : 0; }
  void keep_prepared(std::unique_ptr<TransactionImpl> transaction);
  Status recover_one(std::unique_ptr<rocksdb::Transaction> prepared, std::vector<std::string> *spilled);
  void remove_unnamed_spills(const std::vector<std::string> &named);
  void add(TransactionImpl *transaction);
  void remove(TransactionImpl *transaction);

 private:
  // A part of the running transactions. There are 16 parts with a mutex each, so that beginning and ending
  // transactions rarely wait for each other.
  struct alignas(64) Registry {
    Mutex mutex;
    std::vector<TransactionImpl *> transactions ATOLL_GUARDED_BY(mutex);
  };
  Registry &registry_of(uint64_t id) { return registries_[id % registries_.size()]; }

  lsm::Rows *const rows_;
  lsm::RunFiles *const run_files_;
  LockTable locks_;
  FamilyActivity activity_;
  QueueHeads queue_heads_;
  ReadPool read_pool_;
  std::function<uint64_t()> wal_position_;
  std::atomic<uint64_t> next_id_{1}, write_bytes_max_{0}, spill_bytes_{0}, next_spill_{1};
  std::array<Registry, 16> registries_;
  Mutex prepared_mutex_;
  // The prepared transactions without a connection, by XID.
  std::map<std::string, std::unique_ptr<TransactionImpl>, std::less<>> prepared_
      ATOLL_GUARDED_BY(prepared_mutex_);
};

}  // namespace atoll::txn
