// Reads the rows of one table: by an index in either direction, by the whole primary key, all rows, or the
// rows of many ranges at once. Consistent reads see the transaction's snapshot. Locking reads see the newest
// versions; they lock each row and the ranges between the rows (range_guard.h).
//
// A read starts with search(), get() or scan(), and continues with next(), prev(), next_same() or scan(). The
// row of an entry under the cursor may be deleted, changed, locked by another transaction (SKIP LOCKED), or
// refused by a condition. Then the cursor moves to the next entry.
//
// The position of the cursor is a Place:
//
//                       search, scan                  a plain read by a secondary index
//   kBeforeFirst ──────────────────────▶ kOnEntry ◀──────────────────────────────────▶ kBehindBatch
//        │ get                            ▲     │ nothing found, close, turn                │
//        ▼               next, prev       │     ▼                                           │
//      kPoint ────────────────────────────┴─ kAtKey ◀───────────────────────────────────────┘
//
// begin_index() and begin_table() lead to kBeforeFirst from everywhere, search() and scan() to kOnEntry,
// get() to kPoint. Tests: row_cursor_test.cc, against a sorted map.
//
// Blob columns of the record that was read last point into this object until the next read.
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "table/entry_cursor.h"
#include "table/locks/range_guard.h"
#include "table/row_batch.h"
#include "table/row_filter.h"
#include "table/scan/ordered_lookups.h"
#include "table/locks/row_locks.h"
#include "table/search_bounds.h"

namespace atoll::table {

// Where a RowCursor is; the picture above shows the moves.
enum class Place : uint8_t {
  kBeforeFirst,  // nothing was read since the index, or the whole table, was chosen
  kAtKey,        // only a key is known: the key of the row returned last, or where a read found no row
  kPoint,        // the last read was by a whole primary key; no other row has that key
  kOnEntry,      // the cursor of entries is on the entry of the row returned last
  kBehindBatch,  // the cursor of entries is on the first entry that is not in the batch
};

constexpr bool is_legal_move(Place from, Place to) {
  switch (to) {
    case Place::kBeforeFirst:
    case Place::kPoint:
    case Place::kOnEntry:
      return true;
    case Place::kAtKey:
      return from != Place::kPoint;
    case Place::kBehindBatch:
      return from == Place::kOnEntry || from == Place::kBehindBatch;
  }
  return false;
}

// The columns that a statement reads of each row.
struct WantedColumns {
  bool all = false;
  std::vector<uint32_t> stored;  // if not `all`: the positions of the wanted stored columns, ascending
  bool entries_suffice = false;  // the entries of the index have all wanted columns, so no row is looked up
  // As entries_suffice, for a locking read: it locks the row, and looks it up only if the row may have
  // changed since the entry was read. No conditions are evaluated. The other columns of the record stay as
  // they are.
  bool locked_entries_suffice = false;
};

// The reader of one open table. The handler has one for as long as it exists; each statement begins its
// reads anew.
class RowCursor {
 public:
  // The result of a read. kNone: there is no row, or no further one. kTooNew: the table or its index was
  // created, copied or truncated after the snapshot, and lacks the rows or entries that the snapshot must
  // show (the user's error: "Table definition has changed").
  enum class Found : uint8_t { kNone, kRow, kTooNew };

  // The arguments must outlive the cursor. A RowWriter may share the table and the locks.
  RowCursor(OpenTable *table, RowLocks *locks, RowView *view)
      : table_(*table),
        view_(*view),
        entries_(table_),
        lookups_(table_),
        locks_(*locks),
        guard_(table_, locks),
        filter_(table_, view),
        primary_key_(*table->mutable_row_key()) {}

  const OpenTable &table() const { return table_; }
  RowFilter &filter() { return filter_; }
  SearchBounds &bounds() { return bounds_; }
  EntryCursor &entries() { return entries_; }
  WantedColumns &wanted() { return wanted_; }
  const WantedColumns &wanted() const { return wanted_; }
  Place place() const { return place_; }

  // ---- beginning and ending a read ----
  void begin_index(size_t number);
  // Keeps the row returned last in memory, because the server uses a row that it has found by a unique key
  // and constants until the statement ends.
  void end_index();
  void begin_table();
  // Closes the cursor of entries. This frees the memory and the snapshot that the cursor holds.
  void close();
  // Called when a new HANDLER statement continues with this cursor. The next read starts at the key of the
  // row returned last; rows that were read ahead are dropped.
  void begin_again();
  // Called at the end of a statement. Frees everything that belongs to it, except buffers of ordinary size.
  void end_statement();
  // Called when other code has moved the cursor of entries. The next read then searches again for the key of
  // the row returned last.
  void note_moved();

  // ---- reading ----
  // All reads return the errors of locks, and kCorruption, kUnavailable, kInterrupted (KILL or
  // Verdict::kStop).

  // Takes the snapshot of a consistent read; false: the table is too new for the snapshot. The caller must
  // call it before a scan of the whole table. The other reads call it themselves.
  bool begin_reading();
  // Returns the first row of a search by the active index.
  Status search(const Seek &seek, uint8_t *record, Found *found);
  // Finds the row of a whole primary key. `is_chosen`: the statement has found this row before, so conditions
  // are not evaluated again.
  Status get(const std::string &key, bool is_chosen, uint8_t *record, Found *found);
  // next() returns the row after the row returned last, in the order of the index; prev() the row before it.
  // After an exact search next() leaves the prefix of the search, and so does prev() without
  // Seek::prefix_stays. next_same() and all steps of a locking read stay within the prefix.
  Status next(uint8_t *record, Found *found);
  Status prev(uint8_t *record, Found *found);
  Status next_same(uint8_t *record, Found *found);
  bool is_exact() const { return !bounds_.prefix().empty(); }
  // Returns the next row in a scan of the whole table. Requires: begin_reading() before the first call.
  Status scan(uint8_t *record, Found *found);
  // Notes a row that was read without scan(). The next scan() continues with the row after it.
  void note_row(std::string_view primary_key);
  // Called when the statement does not want the row read last. Releases its lock where that is allowed
  // (RowLocks::give_back()).
  void give_back_row() { locks_.give_back(primary_key_); }
  // Whether the statement was killed. Called for each row, but only one of 1024 calls asks the statement; the
  // others return false.
  bool is_killed() { return (++rows_seen_ & 0x3FF) == 0 && table_.statement().is_killed(); }

  // Unpacks a stored row into `record`. Requires: OpenTable::row_key() is the row's key.
  Status unpack(std::string_view packed, uint8_t *record);

  // ---- many ranges (row_batches.cc): gather entries of several ranges, then read their rows by one MultiGet
  Status begin_ranges(size_t rows_wanted, Found *found);
  // Begins a new, empty batch.
  void begin_batch() { batch_.clear(); }
  const RowBatch &batch() const { return batch_; }
  void begin_range(const Bounds &bounds);
  // Adds the entries of the range, until the batch is full or the range ends (batch().ended).
  Status gather();
  // Adds to the batch the row that has this primary key.
  void add_row(std::string primary_key);
  // Looks up the rows of the batch in one MultiGet. *found: kNone if the batch is empty.
  Status look_up(Found *found);
  // Returns the next row of the batch that exists and passes the conditions. *found: kNone if the batch has
  // no such row left.
  Status next_of_batch(uint8_t *record, Found *found);
  // Whether a read by the active index looks up rows in batches.
  bool is_batching() const {
    return !table_.locking() && index_ >= 0 && !reads_rows() && !wanted_.entries_suffice;
  }
  // Forgets the batch.
  void restart_batch() { batch_.restart(); }

 private:
  enum class Accepted : uint8_t { kYes, kNo, kEnd };
  enum class Fetched : uint8_t { kRow, kRefused, kAbsent };

  void move_to(Place place);
  const Layout &layout() const { return table_.layout(); }
  size_t index() const { return static_cast<size_t>(index_); }
  bool reads_rows() const { return index_ < 0 || layout().is_primary(index()); }
  const IndexLayout &scanned_index() const {
    return index_ < 0 ? layout().primary_index() : layout().index(index());
  }
  bool is_one_key(const Seek &seek) const;
  void leave_prefix();
  void stand_at(const std::string &key);
  Status walk(bool forward, uint8_t *record, Found *found);
  Status step(bool forward, uint8_t *record, Found *found);
  bool go_to_key(bool forward);
  void begin_scan();
  void resume_scan();
  Status protect_to_cursor(bool forward);
  Status accept_from_here(bool forward, uint8_t *record, Found *found);
  Status accept_row(uint8_t *record, Accepted *accepted);
  Status accept_entry(uint8_t *record, Accepted *accepted);
  Status check_entry_condition(std::string_view key, std::string_view value, uint8_t *record,
                               Accepted *accepted);
  Status check_row_filter(Accepted *accepted);
  Status is_newest(bool *newest) const;
  Status lock_and_fetch(const std::string_view *seen, uint8_t *record, Fetched *fetched);
  Status fetch(uint8_t *record, Fetched *fetched);
  Status check_snapshot();
  Status deliver(std::string_view packed, uint8_t *record);
  Status decode_entry(std::string_view key, std::string_view value, uint8_t *record);
  Status gather_batch(bool forward);
  Status add_entry(Accepted *accepted);
  Status row_of_batch(size_t i);
  Status read_batch(bool forward, uint8_t *record, Found *found);

  OpenTable &table_;
  RowView &view_;
  EntryCursor entries_;
  OrderedLookups lookups_;
  RowLocks &locks_;
  RangeGuard guard_;
  RowFilter filter_;
  SearchBounds bounds_;
  RowBatch batch_;
  WantedColumns wanted_;
  int index_ = -1;  // the active index; -1: the whole table
  Place place_ = Place::kBeforeFirst;
  std::string key_;           // the key of the entry returned last, in the active index
  std::string &primary_key_;  // OpenTable::row_key()
  rocksdb::PinnableSlice row_;
  std::string row_buffer_;  // a copy of the packed row, for the BLOBs of the record to point into
  std::string entry_scratch_;
  uint64_t rows_seen_ = 0;
};

}  // namespace atoll::table
