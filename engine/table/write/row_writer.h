// Writes the rows of one table and their index entries, in the statement's transaction.
//
// All unique keys are locked and checked before the first write of a row, so that a duplicate undoes nothing.
// A changed row also loses the index entries of the version that its transaction's snapshot shows: otherwise
// an index scan at that snapshot would return the row twice.
//
// After an error of insert(), update() or remove() some of the row may be written, except after kDuplicate:
// the caller rolls back to a savepoint that it set before. Tests: row_writer_test.cc; row_cursor_test.cc,
// whose sessions write with it; large_rows_test.cc for pieces; tests of the server for virtual columns.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "table/locks/row_locks.h"
#include "table/open_table.h"

namespace atoll::table {

// What writing rows asks of the server. The handler implements it over its TABLE.
class WriteView {
 public:
  virtual ~WriteView() = default;

  using Use = std::function<Status(size_t index, const uint8_t *record)>;
  // Calls `use` for each secondary index, with a record of the packed row in which the virtual columns of
  // that index are computed. Errors: kCorruption, and those of use.
  virtual Status each_index_of(std::string_view packed, const Use &use) = 0;
};

// Learns of each change of a row, in the same transaction, while an index is being built.
class ChangeLog {
 public:
  struct RowImage {
    const uint8_t *record = nullptr;  // nullptr: there is no such row
    const std::string *primary_key = nullptr;
  };
  virtual ~ChangeLog() = default;
  // Errors: those of Transaction::put().
  virtual Status log(txn::Transaction *transaction, const RowImage &before, const RowImage &after) = 0;
  // Whether rows may not be stored in pieces meanwhile.
  virtual bool needs_whole_rows() const = 0;
};

// Threads: one at a time. In the records, virtual columns of indexes are computed by the caller. `hidden_id`:
// of a table without a primary key.
class RowWriter {
 public:
  // The table, the locks and the view outlive the writer.
  RowWriter(const OpenTable &table, RowLocks *locks, WriteView *view)
      : table_(table), locks_(*locks), view_(*view) {}

  // The writer tells `log` each change from now on; nullptr: nobody. `log` lives until another one is set.
  void set_log(ChangeLog *log) { log_ = log; }
  // The handler calls this after each statement. The writer forgets which keys were absent, and gives the
  // memory of large rows back.
  void end_statement();

  // Errors: kDuplicate: another row has the same values in the unique index duplicate_index(), and nothing
  // was written; kInvalid: the row is too large; those of the locks and of Transaction::put().
  Status insert(const uint8_t *record, uint64_t hidden_id);
  // Errors: as insert(); kNotFound: the rows are the same, and nothing was written.
  Status update(const uint8_t *old_record, const uint8_t *new_record, uint64_t hidden_id);
  // Errors: as insert(), but for kDuplicate.
  Status remove(const uint8_t *record, uint64_t hidden_id);

  // The primary key of the row that was inserted or updated last.
  const std::string &primary_key() const { return primary_key_; }
  // The index of the duplicate, after kDuplicate; in the server's numbering.
  size_t duplicate_index() const { return duplicate_index_; }

 private:
  const Layout &layout() const { return table_.layout(); }
  lsm::Family *family() const { return table_.family(); }
  txn::Transaction *transaction() const { return table_.transaction(); }
  size_t unique_length(size_t index, const std::string &entry_key) const;

  Status check_unique(const uint8_t *record, const uint8_t *old_record);
  Status check_primary();
  Status check_index(size_t index, const uint8_t *record, const uint8_t *old_record);
  Status check_unique_entry(size_t index, const std::string &start);
  Status find_unique_entry(const std::string &start, std::string *entry);
  Status wait_for_ranges(const std::string &key);

  bool goes_in_pieces(const uint8_t *record) const;
  Status pack_old_row(const uint8_t *record);
  Status put_row(const uint8_t *record, bool in_pieces, bool is_new);
  Status remove_pieces(const std::string &primary_key, uint64_t from);

  Status insert_entries(const uint8_t *record);
  Status update_entries(const uint8_t *old_record, const uint8_t *new_record);
  Status remove_entry(size_t index, const uint8_t *record, const std::string &primary_key);
  Status remove_snapshot_entries(const std::string &primary_key, std::string_view current_row);
  Status log_change(const uint8_t *old_record, const uint8_t *new_record);

  const OpenTable &table_;
  RowLocks &locks_;
  WriteView &view_;
  ChangeLog *log_ = nullptr;
  size_t duplicate_index_ = 0;

  // Of the row being written. What is old is the row as it was.
  std::string primary_key_, old_primary_key_;
  std::string packed_row_, old_packed_row_;
  std::string entry_key_, entry_value_, old_entry_key_, old_entry_value_;
  uint64_t old_pieces_ = 0;
  bool snapshot_differs_ = false;  // the snapshot has not exactly the entries of the old row

  txn::AbsentRange absent_keys_;  // of the primary key; of this statement
};

}  // namespace atoll::table
