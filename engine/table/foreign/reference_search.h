// Looks in an index of a table that need not be open for a row that has given values, and locks this row: the
// parent of a child's row, or a child of a parent's row. It reads the newest rows, whatever the snapshot of
// the transaction is. Otherwise a transaction would not see the child that another one has committed since.
//
// A row that is found has a lock until the transaction ends, so that nobody removes it before. If there is no
// row, and the statement protects ranges, nobody inserts one before the transaction ends.
//
// Why no child is left without its parent: who inserts a child locks the parent's row, shared. Who removes a
// parent, or changes its key, has locked that row exclusively before it looks for children. A prepared XA
// transaction keeps only the locks of the rows that it has written. So the search for children always locks
// the range that it reads (NewestRows): it then waits for a child that a prepared transaction has inserted.
// Tests: reference_search_test.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "table/foreign/absence_search.h"
#include "table/row_cursor.h"
#include "table/scan/ordered_lookups.h"

namespace atoll::table {

// The running statement, for searches that protect ranges at every isolation level.
class NewestRows final : public Statement {
 public:
  explicit NewestRows(Statement *statement) : statement_(*statement) {}
  txn::Transaction *transaction() override { return statement_.transaction(); }
  bool keeps_snapshot() const override { return true; }
  uint64_t lock_wait_ms() const override { return statement_.lock_wait_ms(); }
  bool refuses_changed_rows() const override { return false; }
  bool is_killed() const override { return statement_.is_killed(); }

 private:
  Statement &statement_;
};

// The server's part in a search that has no open TABLE: there is none.
class ViewWithoutTable final : public RowView {
 public:
  explicit ViewWithoutTable(const OpenTable &table) : table_(table) {}
  uint8_t *record() override { return nullptr; }
  bool has_entry_condition() const override { return false; }
  Verdict check_entry() override { return Verdict::kPasses; }
  bool has_row_filter() const override { return false; }
  Verdict check_row_filter() override { return Verdict::kPasses; }
  const codec::Predicate *predicate() override { return nullptr; }
  void note_refused_row() override {}
  void complete(uint8_t *) override {}
  // Virtual columns cannot be computed without a TABLE. The cursor then takes an entry for the row's,
  // although another transaction may have changed the row meanwhile.
  bool compute_virtual_columns(size_t index, uint8_t *record) override;

 private:
  const OpenTable &table_;
};

// A search in one index, used for one row after the other. Threads: only the thread of the running statement.
class ReferenceSearch {
 public:
  struct Target {
    std::shared_ptr<const Layout> layout;
    size_t record_bytes;  // of the records for which the layout was made
    size_t index;
    size_t parts;               // how many parts of the index have values
    int row_end = -1;           // the stored column ROW END of a system-versioned table; -1: there is none
    bool expects_none = false;  // most searches find no row
  };
  ReferenceSearch(Statement *statement, txn::LockTable *locks, Target target);

  // *found: whether a row has a key that begins with `start`. The row is locked, shared. Errors: of the locks
  // (the caller ends the statement), kCorruption, kUnavailable, kInterrupted.
  Status find(const std::string &start, bool *found);
  // A cheap look: true if no row has a key that begins with `start`, and nobody inserts one before the
  // transaction ends. False: it is not known. After some vain looks it does not look any more. Requires:
  // Target::expects_none.
  bool shows_none(const std::string &start);
  // Forgets what it has found, and closes its cursor. Called at the end of a statement.
  void end_statement();

 private:
  // A row that has been found for `start`, if `statement` is the present one.
  struct Known {
    uint64_t statement = 0;
    std::string start, row_key;
  };
  bool is_known(const std::string &start) const;
  bool is_absent(const std::string &start);
  bool is_whole_primary_key() const;
  Status look_up(const std::string &start, bool *found);
  Status find_row(const std::string &key, bool *found);
  bool is_history() const;
  Status remember(const std::string &start, const std::string &row_key);

  const Target target_;
  OpenTable table_;
  RowLocks locks_{table_};
  ViewWithoutTable view_{table_};
  RowCursor cursor_;
  AbsenceSearch absence_{table_};
  OrderedLookups lookups_{table_};
  rocksdb::PinnableSlice row_;
  uint32_t vain_looks_ = 0;  // of shows_none(), without one between them that has shown anything
  std::string record_;
  uint64_t transaction_id_ = 0;  // of what is known
  uint64_t statement_ = 1;       // counts statements and transactions
  std::vector<Known> known_;     // by the hash of `start`: a later one replaces an earlier one in its place
};

}  // namespace atoll::table
