// Writes the rows of one table and their index entries, in the statement's transaction.
//
// All unique keys are locked and checked before the first write of a row, so that after a duplicate nothing
// must be undone. A change of a row also removes the index entries of the version that the transaction's
// snapshot shows. Otherwise an index scan at that snapshot would return the row twice.
//
// After an error of insert(), update() or remove(), except kDuplicate and kForeignKey, a part of the row may
// be written. Then the caller rolls back to a savepoint that it has set before. Tests: row_writer_test.cc;
// row_cursor_test.cc, whose sessions use this class; large_rows_test.cc for pieces; tests of the server for
// virtual columns.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "table/locks/row_locks.h"
#include "table/open_table.h"

namespace atoll::table {

// The functions of the server that a write of rows needs. The handler implements them over its TABLE.
class WriteView {
 public:
  virtual ~WriteView() = default;

  using Use = std::function<Status(size_t index, const uint8_t *record)>;
  // Unpacks `packed` into a record and calls `use` for each secondary index, after the virtual columns of
  // that index have been computed in the record. Errors: kCorruption, and as `use`.
  virtual Status each_index_of(std::string_view packed, const Use &use) = 0;
};

// Gets each change of a row, in the transaction that makes it, while an ALTER builds indexes or a table
// online.
class ChangeLog {
 public:
  struct RowImage {
    const uint8_t *record = nullptr;  // nullptr: there is no row before an insert, or after a removal
    const std::string *primary_key = nullptr;
  };
  virtual ~ChangeLog() = default;
  // Errors: as Transaction::put().
  virtual Status log(txn::Transaction *transaction, const RowImage &before, const RowImage &after) = 0;
  // Whether writers must store large rows whole, and not in pieces, as long as this log is set. True when the
  // log holds whole rows.
  virtual bool needs_whole_rows() const = 0;
};

// Asked about each row before it is written: once for each index, the primary one first, before the unique
// key of that index is checked. So the order of errors is that of InnoDB, which writes one index after the
// other.
class RowCheck {
 public:
  static constexpr int kHiddenPrimary = -1;
  virtual ~RowCheck() = default;
  // `index`: the server's number. `old_record`: nullptr for a new row. Not asked about an update that changes
  // nothing, nor about a removal. Errors: kForeignKey: the row must not be written; others as the check's
  // reads.
  virtual Status check(int index, const uint8_t *old_record, const uint8_t *new_record) = 0;
};

// Threads: one at a time. The caller computes the virtual columns of indexes in the records. `hidden_id`: the
// row's key in a table without a primary key.
class RowWriter {
 public:
  // Whether an update() has changed the row. kSame: the old and the new row are equal, and nothing was
  // written.
  enum class Updated : uint8_t { kChanged, kSame };

  // The arguments must outlive the writer. After a write, OpenTable::row_key() is the key of the new row.
  RowWriter(OpenTable *table, RowLocks *locks, WriteView *view)
      : table_(*table), locks_(*locks), view_(*view) {}

  // From now on the writer passes each change to `log`; nullptr: to no log. `log` must live until another one
  // is set.
  void set_log(ChangeLog *log) { log_ = log; }
  // From now on the writer asks `check` about each row; nullptr: nobody.
  void set_check(RowCheck *check) { check_ = check; }
  // The handler calls this after each statement. The writer forgets which primary keys it has found absent,
  // and frees the memory of large rows.
  void end_statement();

  // Errors: kDuplicate: another row has the same values in the unique index duplicate_index(), and nothing
  // was written; kForeignKey: the check has refused the row, and nothing was written; kInvalid: the row is
  // too large; those of the locks, of the check and of Transaction::put().
  Status insert(const uint8_t *record, uint64_t hidden_id);
  // *updated: set if the call succeeds. Errors: as insert().
  Status update(const uint8_t *old_record, const uint8_t *new_record, uint64_t hidden_id, Updated *updated);
  // Errors: as insert(), except kDuplicate and kForeignKey.
  Status remove(const uint8_t *record, uint64_t hidden_id);

  // After kDuplicate: the index in which the duplicate was found, by the server's number.
  size_t duplicate_index() const { return duplicate_index_; }

 private:
  const Layout &layout() const { return table_.layout(); }
  lsm::Family *family() const { return table_.family(); }
  txn::Transaction *transaction() const { return table_.transaction(); }
  size_t unique_length(size_t index, const std::string &entry_key) const;

  Status check_unique(const uint8_t *record, const uint8_t *old_record);
  Status ask(int index, const uint8_t *record, const uint8_t *old_record) {
    return check_ == nullptr ? Status::Ok() : check_->check(index, old_record, record);
  }
  Status check_primary();
  Status check_index(size_t index, const uint8_t *record, const uint8_t *old_record);
  Status check_unique_entry(size_t index, const std::string &start);
  Status find_unique_entry(const std::string &start, std::string *entry);
  Status wait_for_ranges(const std::string &key);

  bool goes_in_pieces(const uint8_t *record) const;
  Status pack_old_row(const uint8_t *record, bool is_needed);
  Status put_row(const uint8_t *record, bool in_pieces, bool is_new);
  Status remove_pieces(const std::string &primary_key, uint64_t from);

  Status insert_entries(const uint8_t *record);
  Status update_entries(const uint8_t *old_record, const uint8_t *new_record);
  Status remove_entry(size_t index, const uint8_t *record, const std::string &primary_key);
  bool has_older_snapshot() const;
  Status remove_snapshot_entries(const std::string &primary_key, std::string_view current_row);
  Status log_change(const uint8_t *old_record, const uint8_t *new_record);

  OpenTable &table_;
  RowLocks &locks_;
  WriteView &view_;
  ChangeLog *log_ = nullptr;
  RowCheck *check_ = nullptr;
  size_t duplicate_index_ = 0;

  // Buffers for the keys, the packed form and the index entries of the row that is being written. Those with
  // old_ belong to the row before the change.
  std::string primary_key_, old_primary_key_;
  std::string packed_row_, old_packed_row_;
  std::string entry_key_, entry_value_, old_entry_key_, old_entry_value_;
  uint64_t old_pieces_ = 0;
  bool snapshot_differs_ = false;  // true: the snapshot may show other entries than the old row's

  txn::AbsentRange absent_keys_;  // a range of primary keys that this statement has found to be absent
};

}  // namespace atoll::table
