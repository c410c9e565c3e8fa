// A transaction: snapshot, locks, own writes, savepoints, two-phase commit. It works on two RocksDB
// databases, main and temp. So TEMPORARY tables follow the same savepoints, without touching the bucket.
//
// One thread at a time uses a Transaction, its connection's. The only thing that other threads are allowed to
// do with it is to call LockTable::kill() for lock_owner().
#pragma once

#include <rocksdb/iterator.h>
#include <rocksdb/slice.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

// Which committed version a read sees. Own writes are always seen.
enum class ReadAt : uint8_t {
  kSnapshot,  // the transaction's (or, READ COMMITTED, the statement's) snapshot
  kLatest,    // the newest committed version: after a lock has been taken
};

// The range that a scan reads, and how it reads it.
struct ScanOptions {
  std::string lower;             // inclusive; empty: no bound
  std::string upper;             // exclusive; empty: no bound
  bool fill_cache = true;        // false: the scan leaves the block cache as it is
  uint64_t readahead_bytes = 0;  // 0: RocksDB decides how much it reads ahead
  // True: all entries in the range begin with `lower`, their unique start (see put()). Spilled files of a
  // large transaction that have no such entry are then not read.
  bool unique_start = false;
  // More deleted entries and old versions than this in one step or search make the cursor invalid, with an
  // error; 0: it passes any number.
  uint64_t hidden_max = 0;
  // True: own writes are not merged in. The caller asks has_written_in() about them.
  bool committed_only = false;
};

class Manager;

// One transaction of one connection. Manager::begin() makes it, and the connection's Session owns it.
// It ends by a commit or a rollback. A prepared transaction whose connection is gone belongs to the
// Manager.
class Transaction {
 public:
  // Rolls back and releases the locks. A prepared transaction is not rolled back, because it was promised
  // that it can commit: the manager keeps it, as after detach_prepared().
  virtual ~Transaction() = default;

  virtual uint64_t id() const = 0;
  virtual LockOwner *lock_owner() = 0;

  // The snapshot for reads. make_snapshot() keeps a snapshot that exists already.
  virtual void make_snapshot() = 0;
  virtual void release_snapshot() = 0;
  virtual bool has_snapshot() const = 0;

  // Reads the value of one key. kNotFound is a usual result. ReadAt::kSnapshot reads the latest version if
  // there is no snapshot.
  virtual Status get(lsm::Family *family, std::string_view key, ReadAt at, rocksdb::PinnableSlice *value) = 0;
  // Returns what get() with kLatest returns, but reads no value. Requires: this transaction has locked `key`
  // exclusively. A caller that asks for many keys of one index in key order passes the same *range each time,
  // which saves lookups. `end`: the first key after the index.
  virtual Status find_locked(lsm::Family *family, std::string_view key, std::string_view end,
                             AbsentRange *range) = 0;
  // Reads many keys in one batch (MultiGet). The keys need not be sorted; *values and *statuses get
  // keys.size() elements. Returns the positions, ascending, of the keys that were not read because the values
  // had reached kMultiGetBytesMax. The caller calls get() for each of these when it needs the key. At least
  // one key is read.
  virtual std::vector<size_t> multi_get(lsm::Family *family, const std::vector<rocksdb::Slice> &keys,
                                        ReadAt at, std::vector<rocksdb::PinnableSlice> *values,
                                        std::vector<Status> *statuses) = 0;
  static constexpr size_t kMultiGetBytesMax = 16 << 20;
  // Opens a cursor. The cursor keeps a copy of the bounds. It sees the own writes made before it was opened
  // and none made later. The cursor can outlive the transaction, but not a rollback to a savepoint.
  virtual std::unique_ptr<Cursor> scan(lsm::Family *family, ReadAt at, const ScanOptions &options) = 0;
  // The RocksDB snapshot for parallel readers on other threads; nullptr = latest. Valid as long as this
  // transaction keeps its snapshot. Always nullptr for kTemp, because only this connection writes to temp,
  // and only when it commits.
  virtual const rocksdb::Snapshot *snapshot(lsm::Side side) = 0;
  virtual bool has_writes(lsm::Side side) const = 0;
  // True if some of the transaction's writes are on local disk, because they did not fit into memory. After
  // prepare(), such a transaction can be committed only on this machine, because the files are only here.
  virtual bool is_spilled() const = 0;

  // Writes go to memory, and from there to local disk. `unique_length`: for an entry of a unique index, the
  // length of its unique start, which is the first bytes of its key that no other entry has; 0: it has none,
  // or no scan with unique_start looks for it. Errors: kInvalid (see set_write_bytes_max), kNoSpace,
  // kUnavailable: the caller rolls back to a savepoint; kBug; kFenced or kReadOnly at commit, not here.
  virtual Status put(lsm::Family *family, std::string_view key, std::string_view value,
                     size_t unique_length = 0) = 0;
  virtual Status remove(lsm::Family *family, std::string_view key, size_t unique_length = 0) = 0;
  // As put(), for a key that no committed row has. First waits until no range of another transaction contains
  // the key. Every new index entry is written by this function. Errors: as put() and
  // LockTable::lock(). After an error of a lock nothing is written.
  virtual Status insert(lsm::Family *family, std::string_view key, std::string_view value,
                        const LockWait &wait, size_t unique_length = 0) = 0;
  virtual uint64_t write_count() const = 0;
  // Sets *found to whether the transaction has written the key, or removed it. Errors: kUnavailable,
  // kCorruption.
  virtual Status has_written(const lsm::Family *family, std::string_view key, bool *found) const = 0;
  // Whether the transaction has written or removed a key in [lower, upper). Can be true without such a write
  // when writes are on local disk.
  virtual bool has_written_in(const lsm::Family *family, std::string_view lower,
                              std::string_view upper) const = 0;

  // Keeps other transactions from inserting into [lower, upper) until this transaction ends. Never waits. If
  // other transactions have uncommitted writes in the range, the first of these in the direction of the scan
  // is the obstacle. The range is then locked only up to the obstacle, and Obstacle::entry is an index entry
  // of a row that the writer has locked. The caller waits for that row's lock and calls again for the
  // remaining range. If Obstacle::entry is empty, the whole range is locked: a cursor opened from now on sees
  // all entries that will ever be in the range, except own writes. Requires: both bounds in one index of the
  // main side.
  struct Obstacle {
    std::string entry;    // empty: no obstacle
    std::string reached;  // forward: the first key that is not locked; backward: the first key that is locked
  };
  // `row`: the only key in the range that has a row; it is locked, too, where that is possible without a wait
  // (LockTable::lock_range()).
  virtual Obstacle lock_range(lsm::Family *family, std::string_view lower, std::string_view upper,
                              bool forward, std::optional<RowInRange> row = {}) = 0;
  // A counter that grows when a transaction that wrote to the family ends. A cursor that was opened before
  // does not show that transaction's writes.
  virtual uint64_t commits_seen(const lsm::Family *family) const = 0;

  // Savepoints. The depth is the number of savepoints set and not released, statement savepoints included.
  virtual size_t set_savepoint() = 0;                       // returns its number: the depth before
  virtual Status rollback_to_savepoint(size_t number) = 0;  // undoes writes; the savepoint itself stays
  virtual void release_savepoint(size_t number) = 0;        // this one and all later ones; writes stay
  virtual void forget_savepoint(size_t number) = 0;         // only this one; later ones keep their numbers
  // A rollback to a savepoint keeps the locks that were taken since, as InnoDB does.

  // Sets what the WAL says about this transaction's commit besides the time. The last call before the commit
  // counts; without a call the WAL has the time only. Forgotten when the transaction ends.
  virtual void set_mark(const lsm::CommitMark &mark) = 0;

  // Ends the transaction. Locks are released after the commit is visible. `sync`: WAL fsync before return. If
  // the transaction was not prepared, the object is like new after commit() or rollback(), whatever their
  // result: no writes, savepoints, snapshot, locks. Errors: kFenced, kReadOnly, kUnavailable, kNoSpace,
  // kCorruption: nothing was committed.
  virtual Status commit(bool sync) = 0;
  virtual void rollback() = 0;

  // Two-phase commit. prepare() makes the writes durable under `xid` (synced if `sync`). `xid` has 1 to 512
  // bytes and is unique among prepared transactions. After an error the caller calls rollback(). After
  // success the transaction must neither read nor write. If commit_prepared() or rollback_prepared() fails,
  // the transaction stays prepared. prepare() does not make writes to temp durable; detach_prepared() drops
  // those that are in memory. The transaction keeps its row locks over a restart, among them those on the
  // unique starts of its new index entries (see put()), but not if `is_decided_at_start`: then the caller
  // commits the transaction or rolls it back at the next start, before other transactions begin. When the
  // transaction is prepared, it releases the locks that `kept` does not name; a spilled transaction releases
  // none.
  virtual Status prepare(std::string_view xid, bool sync, bool is_decided_at_start = false,
                         KeptLocks kept = KeptLocks::kAll) = 0;
  virtual bool is_prepared() const = 0;
  // commit_prepared(): commits become visible in the order of the calls. They are not synced unless `sync` is
  // true.
  virtual Status commit_prepared(bool sync) = 0;
  virtual Status rollback_prepared() = 0;
  // The WAL position (atoll_store_wal_position) right after the commit record; 0 before the commit.
  virtual uint64_t commit_position() const = 0;
};

// A transaction, for INFORMATION_SCHEMA and SHOW ENGINE STATUS.
struct TransactionInfo {
  uint64_t id;
  void *user;           // what begin() got; nullptr: no connection has the transaction any more
  uint64_t started_us;  // since 1970
  uint64_t locks;       // row locks held
  uint64_t writes;      // Transaction::write_count()
  bool prepared;
};

// All transactions of one open database, and their locks. The Engine opens it and destroys it after the
// last transaction. Threads: any.
class Manager {
 public:
  virtual ~Manager() = default;
  static Status open(lsm::Rows *rows, lsm::RunFiles *run_files, std::unique_ptr<Manager> *out);

  virtual LockTable *locks() = 0;
  // Begins a transaction. `user`: the handler's THD*, opaque here (see LockOwner::user()).
  virtual std::unique_ptr<Transaction> begin(void *user) = 0;

  // The XIDs of prepared transactions without a connection: those found at open (their locks are held again)
  // and those whose client has disconnected.
  virtual std::vector<std::string> prepared_xids() = 0;
  // Takes a prepared transaction over from its connection. The transaction lives on; take_prepared() finds
  // it.
  virtual void detach_prepared(std::unique_ptr<Transaction> transaction) = 0;
  // Removes transaction `xid` from those of prepared_xids() and returns it; nullptr: unknown xid.
  virtual std::unique_ptr<Transaction> take_prepared(std::string_view xid) = 0;

  // The XID of a prepared transaction that has written in [lower, upper); empty: there is none. Of large
  // transactions, and of those found at open, only the first and the last key in each index are known.
  // Requires: both bounds in main.
  virtual std::string prepared_writer(lsm::Family *family, std::string_view lower,
                                      std::string_view upper) = 0;

  // The first or last key in [lower, upper) that any transaction has written and not committed; empty: there
  // is none. Call before reading the database, so that the two together miss no write. Requires: the bounds
  // are those of a whole index of main.
  virtual std::string outermost_uncommitted(lsm::Family *family, std::string_view lower,
                                            std::string_view upper, bool last) = 0;

  virtual std::vector<TransactionInfo> list() = 0;  // one element for each Transaction object that exists

  // Limits the memory that the writes of one transaction can take, in bytes: key, value and about 110 bytes
  // for each key. A write beyond the limit fails with kInvalid and changes nothing. 0, the default: no limit.
  // Can be called at any time.
  virtual void set_write_bytes_max(uint64_t bytes) = 0;

  // Sets how much memory one transaction can use. When its row locks use a quarter of this memory, they
  // become row ranges (lock_table.h). When its writes use half of it, they go to local disk. 0: neither
  // happens. Can be called at any time.
  virtual void set_transaction_memory(uint64_t bytes) = 0;

  // Sets the function that gives commit_position() its value; without a function, commit_position() stays 0.
  // Set before the first transaction.
  virtual void set_wal_position(std::function<uint64_t()> position) = 0;
};

}  // namespace atoll::txn
