// A transaction: snapshot, locks, own writes, savepoints, two-phase commit. Over two RocksDB databases
// (main, temp), so that TEMPORARY tables follow the same savepoints without touching the bucket.
//
// One thread at a time uses a Transaction (its connection's), except LockTable::kill on lock_owner().
#pragma once

#include <rocksdb/iterator.h>
#include <rocksdb/slice.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "lsm/commit_mark.h"
#include "lsm/load/loads.h"
#include "lsm/rows.h"
#include "txn/reads/absent_range.h"
#include "txn/reads/cursor.h"
#include "txn/locks/lock_table.h"

namespace atoll::txn {

// Which version a read sees. Own writes are always seen.
enum class ReadAt : uint8_t {
  kSnapshot,  // the transaction's (or, READ COMMITTED, the statement's) snapshot
  kLatest,    // the newest committed version: after a lock has been taken
};

struct ScanOptions {
  std::string lower;       // inclusive; empty: none
  std::string upper;       // exclusive; empty: none
  bool fill_cache = true;  // false: do not displace the block cache
  uint64_t readahead_bytes = 0;
  // `lower` is the unique start of every entry in the range (see put()): files of a large transaction without
  // such an entry are not read.
  bool unique_start = false;
};

class Manager;

class Transaction {
 public:
  // Rolls back and releases locks. A prepared transaction is a promise and is not rolled back: the manager
  // keeps it, as after detach_prepared().
  virtual ~Transaction() = default;

  virtual uint64_t id() const = 0;
  virtual LockOwner *lock_owner() = 0;

  // Snapshot. make_snapshot() keeps an existing one.
  virtual void make_snapshot() = 0;
  virtual void release_snapshot() = 0;
  virtual bool has_snapshot() const = 0;

  // Reads. kNotFound is expected. Requires for kSnapshot: a snapshot (else reads latest).
  virtual Status get(lsm::Family *family, std::string_view key, ReadAt at, rocksdb::PinnableSlice *value) = 0;
  // Answers as get() at kLatest does, but without the value. Requires: this transaction has locked `key`
  // exclusively. A caller that asks for many keys of one index in order passes the same *range each time,
  // which spares lookups. `end`: the first key behind the index.
  virtual Status find_locked(lsm::Family *family, std::string_view key, std::string_view end,
                             AbsentRange *range) = 0;
  // keys.size() results, batched (MultiGet). Keys need not be sorted. Returns the positions, in ascending
  // order, of the keys that were not read because the values had come to kMultiGetBytesMax: get() them when
  // their turn comes. At least one key is read.
  virtual std::vector<size_t> multi_get(lsm::Family *family, const std::vector<rocksdb::Slice> &keys,
                                        ReadAt at, std::vector<rocksdb::PinnableSlice> *values,
                                        std::vector<Status> *statuses) = 0;
  static constexpr size_t kMultiGetBytesMax = 16 << 20;
  // Bounds are copied and kept by the cursor. It sees the own writes made before it was opened and none made
  // later. It may outlive the transaction, but not a savepoint rollback.
  virtual std::unique_ptr<Cursor> scan(lsm::Family *family, ReadAt at, const ScanOptions &options) = 0;
  // The RocksDB snapshot for parallel readers on other threads; nullptr = latest. Valid as long as this
  // transaction keeps its snapshot. Always nullptr for kTemp: only this connection writes there, and only
  // when it commits.
  virtual const rocksdb::Snapshot *snapshot(lsm::Side side) = 0;
  virtual bool has_writes(lsm::Side side) const = 0;
  // Whether some of its writes are on local disk, because memory was too small for them. Then prepare() is
  // only for a two-phase commit that ends on this machine.
  virtual bool is_spilled() const = 0;

  // Writes go to memory, and from there to local disk. `unique_length`: for an entry of a unique index, how
  // many bytes at the start of its key no other entry has; 0: there are none, or nobody scans for them with
  // unique_start. Errors: kInvalid (see set_write_bytes_max), kNoSpace, kUnavailable: the caller rolls back
  // to a savepoint; kBug; kFenced or kReadOnly at commit, not here.
  virtual Status put(lsm::Family *family, std::string_view key, std::string_view value,
                     size_t unique_length = 0) = 0;
  virtual Status remove(lsm::Family *family, std::string_view key, size_t unique_length = 0) = 0;
  // As put(), for a key that no committed row has, but first waits until no range of another transaction
  // contains the key. Every new index entry is written this way. Errors: also those of LockTable::lock();
  // nothing was written then.
  virtual Status insert(lsm::Family *family, std::string_view key, std::string_view value,
                        const LockWait &wait, size_t unique_length = 0) = 0;
  virtual uint64_t write_count() const = 0;

  // Keeps others from inserting into [lower, upper) until this transaction ends. Never waits. If other
  // transactions have uncommitted writes in the range, the first of these in the direction of the scan is the
  // obstacle: the range is locked only up to it, and Obstacle::entry is an index entry of a row that its
  // writer has locked. The caller waits for that row's lock and asks again for the rest. If Obstacle::entry
  // is empty, the whole range is locked: a cursor opened from now on sees all entries that will ever be in
  // the range, except own writes. Requires: both bounds in one index of the main side.
  struct Obstacle {
    std::string entry;    // empty: none
    std::string reached;  // forward: the first key not locked; backward: the first locked
  };
  virtual Obstacle lock_range(lsm::Family *family, std::string_view lower, std::string_view upper,
                              bool forward) = 0;
  // A counter that grows when a transaction that wrote to the family ends. A cursor opened before does not
  // show that transaction's writes.
  virtual uint64_t commits_seen(const lsm::Family *family) const = 0;

  // Savepoints. Depth counts the savepoints set and not released, statement ones included.
  virtual size_t set_savepoint() = 0;                       // returns the depth before: its number
  virtual Status rollback_to_savepoint(size_t number) = 0;  // undoes writes; the savepoint itself stays
  virtual void release_savepoint(size_t number) = 0;        // it and later ones; writes stay
  virtual void forget_savepoint(size_t number) = 0;         // it alone; later ones keep their numbers
  // Locks taken are kept over a savepoint rollback, as InnoDB keeps them.

  // Sets what the log says about this transaction's commit besides its time. The last call before the commit
  // counts; without a call the log has the time only. Forgotten when the transaction ends.
  virtual void set_mark(const lsm::CommitMark &mark) = 0;

  // End. Locks are released after the commit is visible. `sync`: WAL fsync before return. After commit()
  // or rollback(), with any result, the object is as good as new: no writes, savepoints, snapshot, locks.
  // Errors: kFenced, kReadOnly, kUnavailable, kNoSpace, kCorruption: nothing was committed.
  virtual Status commit(bool sync) = 0;
  virtual void rollback() = 0;

  // Two-phase commit. prepare() makes the batch durable under `xid` (synced if `sync`), 1 to 512 bytes,
  // unique among prepared transactions. After an error: rollback(). Afterwards neither read nor write.
  // commit_prepared() and rollback_prepared(), if they fail, leave the transaction prepared.
  // The temp side of a prepared transaction lives in memory only and is dropped by detach_prepared().
  virtual Status prepare(std::string_view xid, bool sync) = 0;
  virtual bool is_prepared() const = 0;
  // commit_prepared: visible in order; not synced unless `sync`.
  virtual Status commit_prepared(bool sync) = 0;
  virtual Status rollback_prepared() = 0;
  // The WAL position (atoll_store_wal_position) right after the commit record; 0 before.
  virtual uint64_t commit_position() const = 0;
};

struct TransactionInfo {
  uint64_t id;
  void *user;
  uint64_t started_us;
  uint64_t locks;
  uint64_t writes;
  bool prepared;
};

class Manager {
 public:
  virtual ~Manager() = default;
  static Status open(lsm::Rows *rows, lsm::RunFiles *run_files, std::unique_ptr<Manager> *out);

  virtual LockTable *locks() = 0;
  virtual std::unique_ptr<Transaction> begin(void *user) = 0;

  // Prepared transactions found at open (their locks are held again) or detached by a disconnected client.
  virtual std::vector<std::string> prepared_xids() = 0;
  // Hands a prepared transaction over from its connection: it lives on, found by xid.
  virtual void detach_prepared(std::unique_ptr<Transaction> transaction) = 0;
  // Takes the transaction `xid` out of those of prepared_xids(); nullptr: unknown xid.
  virtual std::unique_ptr<Transaction> take_prepared(std::string_view xid) = 0;

  // The XID of a prepared transaction that has written in [lower, upper); empty: none. Of large transactions,
  // and of those found at open, only the first and the last key of each index are known. Requires: both
  // bounds of main.
  virtual std::string prepared_writer(lsm::Family *family, std::string_view lower,
                                      std::string_view upper) = 0;

  // The first or last key of [lower, upper) that somebody has written and not committed; empty: there is
  // none. Call it before you read the database, so that the two together miss no write. Requires: both bounds
  // in one index of main.
  virtual std::string outermost_uncommitted(lsm::Family *family, std::string_view lower,
                                            std::string_view upper, bool last) = 0;

  virtual std::vector<TransactionInfo> list() = 0;

  // What one transaction may write, in bytes of memory (about 110 per key more than its key and value); a
  // write beyond it fails with kInvalid and changes nothing. 0, the default: no limit. Any time.
  virtual void set_write_bytes_max(uint64_t bytes) = 0;

  // What one transaction may use before its row locks become row ranges (at a quarter of it) and its writes
  // go to local disk (at a half). 0: neither happens. Any time.
  virtual void set_transaction_memory(uint64_t bytes) = 0;

  // Sets the function that gives commit_position() its value; without one, that stays 0. Set before the first
  // transaction.
  virtual void set_wal_position(std::function<uint64_t()> position) = 0;
};

}  // namespace atoll::txn
