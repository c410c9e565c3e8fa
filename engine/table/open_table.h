// A table that a statement has open: the layout of its rows, the family they are in, how the running
// statement wants to read them, and which row it has read or written last. The classes that read and write
// rows use it; the handler owns it, and beside it a reader and a writer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lsm/family.h"
#include "table/layout.h"
#include "txn/transaction.h"

namespace atoll::table {

enum class RowLock : uint8_t { kNone, kShared, kExclusive };

// The running statement and its session, as the code in engine/table needs them. The handler implements this
// over the server's THD. Threads: only the statement's own.
class Statement {
 public:
  virtual ~Statement() = default;
  // The transaction of the session. The call begins a transaction if none runs. After a commit it may return
  // another object than before.
  virtual txn::Transaction *transaction() = 0;
  // Whether the isolation level is REPEATABLE READ or above: all statements of the transaction read at one
  // snapshot, and locking reads keep other transactions from inserting into the ranges that they have read.
  virtual bool keeps_snapshot() const = 0;
  virtual uint64_t lock_wait_ms() const = 0;
  // Whether the statement must fail instead of locking or changing a row that another transaction has changed
  // since the snapshot.
  virtual bool refuses_changed_rows() const = 0;
  virtual bool is_killed() const = 0;
};

// How the statement reads the table. Set before its first read.
struct ReadMode {
  RowLock lock = RowLock::kNone;  // kNone: reads at the snapshot; others: locks and reads the newest rows
  bool skip_locked = false;       // the statement skips rows that other transactions have locked
  bool may_change = false;        // the statement may change the rows, so their BLOBs must point into a copy
};

// One table as one handler has it open. It lives as long as the handler. Threads: only the thread of
// the running statement.
class OpenTable {
 public:
  // `statement` must outlive this object.
  explicit OpenTable(Statement *statement) : statement_(*statement) {}
  OpenTable(const OpenTable &) = delete;
  OpenTable &operator=(const OpenTable &) = delete;

  // Called before the first statement. `is_sequence`: the table is a SEQUENCE. Its row is always read in its
  // newest version, not at the snapshot, and is never locked.
  void connect(txn::LockTable *locks, bool is_sequence) {
    locks_ = locks;
    is_sequence_ = is_sequence;
  }

  // Gives the table a layout, when it is opened, or when its rows have moved. nullptr: it is closed.
  // Requires: no read of it goes on.
  void set_layout(std::shared_ptr<const Layout> layout) {
    layout_ = std::move(layout);
    newest_.reset();
  }
  // Lets the statement read the rows where they were before the mover moved the table (Layout::former()), or
  // again where they are now. Requires: no read of the table goes on, and for read_former() there is such a
  // place.
  void read_former() {
    newest_ = std::move(layout_);
    layout_ = newest_->former();
  }
  void read_newest() {
    if (newest_) layout_ = std::move(newest_);
  }

  bool is_open() const { return layout_ != nullptr; }
  const Layout &layout() const { return *layout_; }
  const std::shared_ptr<const Layout> &shared_layout() const { return layout_; }
  lsm::Family *family() const { return layout_->family(); }
  bool is_temporary() const { return family()->side() == lsm::Side::kTemp; }
  bool is_past() const { return family()->side() == lsm::Side::kPast; }
  bool is_sequence() const { return is_sequence_; }
  txn::Transaction *transaction() const { return statement_.transaction(); }
  txn::LockTable *locks() const { return locks_; }
  Statement &statement() const { return statement_; }

  // The primary key of the row that the statement has read or written last.
  const std::string &row_key() const { return row_key_; }
  std::string *mutable_row_key() { return &row_key_; }
  // The hidden id of that row; 0: the table has a primary key.
  uint64_t hidden_id() const {
    if (!layout_->hidden_primary()) return 0;
    return hidden_id_of(std::string_view(row_key_).substr(codec::kKeyStartLength));
  }

  const ReadMode &mode() const { return mode_; }
  ReadMode *mutable_mode() { return &mode_; }
  bool locking() const { return mode_.lock != RowLock::kNone; }
  // Whether the statement's reads keep other transactions from inserting into the ranges that they have read.
  bool protects_ranges() const { return locking() && !is_temporary() && statement_.keeps_snapshot(); }
  txn::ReadAt read_at() const {
    return locking() || is_sequence_ ? txn::ReadAt::kLatest : txn::ReadAt::kSnapshot;
  }
  txn::LockWait lock_wait() const { return {mode_.skip_locked ? 0 : statement_.lock_wait_ms()}; }
  // The sequence number of the newest committed write of the database.
  uint64_t newest_sequence() const { return family()->newest_sequence(); }
  // Whether a table or index is too new for the transaction's snapshot. Snapshots with a sequence number from
  // `readable_from` on see all its rows or entries. False also when the transaction has no snapshot yet.
  bool is_newer_than_snapshot(uint64_t readable_from) const {
    if (readable_from == 0) return false;
    const rocksdb::Snapshot *snapshot = transaction()->snapshot(family()->side());
    return snapshot != nullptr && snapshot->GetSequenceNumber() < readable_from;
  }

 private:
  std::shared_ptr<const Layout> layout_;
  std::shared_ptr<const Layout> newest_;  // the present layout while layout_ is its former one; else nullptr
  Statement &statement_;
  txn::LockTable *locks_ = nullptr;
  bool is_sequence_ = false;
  ReadMode mode_;
  std::string row_key_;
};

}  // namespace atoll::table
