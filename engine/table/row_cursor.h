// Reads the rows of one table: by an index, in either direction, by the whole primary key, all of them, or
// those of many ranges at once. Plain reads see the transaction's snapshot; reads with locks lock each row,
// and what lies between (range_guard.h), and see the newest version.
//
// A read starts with search(), get() or scan(), and goes on with next() and its like. An entry under the
// cursor may belong to a row that is gone, changed, locked by another (SKIP LOCKED), or refused by a
// condition: then the cursor moves on.
//
// Where the cursor is, is one Place:
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
#include "table/locks/row_locks.h"
#include "table/search_bounds.h"

namespace atoll::table {

enum class Place : uint8_t {
  kBeforeFirst,  // nothing was read since the index, or the table, was chosen
  kAtKey,        // behind the row returned last, or where a read that found nothing has stopped; by its key
  kPoint,        // the row of a whole primary key was asked for; no other row has that key
  kOnEntry,      // the cursor of entries stands on the row returned last
  kBehindBatch,  // it stands on the first entry that is not in the batch
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

// What a statement wants of each row.
struct WantedColumns {
  bool all = false;
  std::vector<uint32_t> stored;  // unless all: stored columns, ascending
  bool entries_suffice = false;  // the entries of the index have all of them
};

class RowCursor {
 public:
  // kTooNew: the table or its index was made, copied or truncated since the snapshot and lacks what the
  // snapshot would show ("Table definition has changed").
  enum class Found : uint8_t { kNone, kRow, kTooNew };

  // All live longer than the cursor. `layout` may be exchanged between two statements.
  RowCursor(const std::shared_ptr<const Layout> &layout, Statement *statement, RowView *view)
      : table_(layout, statement),
        view_(*view),
        entries_(table_),
        locks_(table_),
        guard_(table_, &locks_),
        filter_(table_, view) {}

  OpenTable &table() { return table_; }
  const OpenTable &table() const { return table_; }
  RowLocks &locks() { return locks_; }
  const RowLocks &locks() const { return locks_; }
  RowFilter &filter() { return filter_; }
  SearchBounds &bounds() { return bounds_; }
  EntryCursor &entries() { return entries_; }
  WantedColumns &wanted() { return wanted_; }
  const WantedColumns &wanted() const { return wanted_; }
  Place place() const { return place_; }

  // The primary key of the row that was read last, or written.
  const std::string &primary_key() const { return primary_key_; }
  void set_primary_key(std::string_view key) { primary_key_.assign(key); }
  // The hidden id in it; 0: the table has a primary key.
  uint64_t hidden_id() const {
    if (!layout().hidden_primary()) return 0;
    return hidden_id_of(std::string_view(primary_key_).substr(codec::kKeyStartLength));
  }

  // ---- begin and end ----
  void begin_index(size_t number);
  // The row returned last stays: one found by a unique key and constants is used until the statement ends.
  void end_index();
  void begin_table();
  // Closes the cursor of entries, and with it frees the memory and the snapshot that it holds.
  void close();
  // A new statement goes on with this cursor (HANDLER): from a key, without what was read ahead.
  void begin_again();
  // The statement is over: nothing of it stays but buffers of ordinary size.
  void end_statement();
  // Notes that the cursor of entries was used for something else.
  void note_moved();

  // ---- reading ----
  // All return errors of locks, and kCorruption, kUnavailable, kInterrupted (KILL, or Verdict::kStop).

  // Takes the snapshot of a plain read; false: the table is too new for it. Called before a scan of the whole
  // table; the other reads call it themselves.
  bool begin_reading();
  // The first row of a search by the active index.
  Status search(const Seek &seek, uint8_t *record, Found *found);
  // Finds the row of a whole primary key. `is_chosen`: the statement has found it before, so that conditions
  // are not evaluated again.
  Status get(const std::string &key, bool is_chosen, uint8_t *record, Found *found);
  // Returns the row after the one returned last, in the order of the index; prev() returns the row before it.
  // What bounded an exact search bounds only next_same(), and prev() if Seek::prefix_stays; a read with locks
  // stays within it.
  Status next(uint8_t *record, Found *found);
  Status prev(uint8_t *record, Found *found);
  Status next_same(uint8_t *record, Found *found);
  bool is_exact() const { return !bounds_.prefix().empty(); }
  // The next row of the table. Requires: begin_reading() before the first.
  Status scan(uint8_t *record, Found *found);
  // Notes that a row was read in another way: scan() goes on behind it.
  void note_row(std::string_view primary_key);
  // The row just read is not wanted: see RowLocks::give_back().
  void give_back_row() { locks_.give_back(primary_key_); }
  // Asked for each row: looks whether the statement was killed once in 1024 times.
  bool is_killed() { return (++rows_seen_ & 0x3FF) == 0 && table_.statement().is_killed(); }

  // Makes the record of a stored row. Requires: primary_key() is its key.
  Status unpack(std::string_view packed, uint8_t *record);

  // ---- many ranges (row_batches.cc): entries of several are gathered, then their rows looked up in one go
  Status begin_ranges(size_t rows_wanted, Found *found);
  // A batch begins.
  void begin_batch() { batch_.clear(); }
  const RowBatch &batch() const { return batch_; }
  void begin_range(const Bounds &bounds);
  // Adds the entries of the range, until the batch is full or the range ends (batch().ended).
  Status gather();
  // Adds a row by its primary key.
  void add_row(std::string primary_key);
  // Looks up the rows of the batch. kNone: it has none.
  Status look_up(Found *found);
  // The next row of the batch that exists and passes the conditions. kNone: there is none left in it.
  Status next_of_batch(uint8_t *record, Found *found);
  // Does a read by the active index gather rows?
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
  Status lock_and_fetch(const std::string_view *seen, uint8_t *record, Fetched *fetched);
  Status fetch(uint8_t *record, Fetched *fetched);
  Status check_snapshot();
  Status deliver(std::string_view packed, uint8_t *record);
  Status decode_entry(std::string_view key, std::string_view value, uint8_t *record);
  Status gather_batch(bool forward);
  Status add_entry(Accepted *accepted);
  Status row_of_batch(size_t i);
  Status read_batch(bool forward, uint8_t *record, Found *found);

  OpenTable table_;
  RowView &view_;
  EntryCursor entries_;
  RowLocks locks_;
  RangeGuard guard_;
  RowFilter filter_;
  SearchBounds bounds_;
  RowBatch batch_;
  WantedColumns wanted_;
  int index_ = -1;  // the active index; -1: the whole table
  Place place_ = Place::kBeforeFirst;
  std::string key_;  // of the entry returned last (of the active index)
  std::string primary_key_;
  rocksdb::PinnableSlice row_;
  std::string row_buffer_;  // what blob pointers of the current row point into
  std::string entry_scratch_, key_scratch_;
  uint64_t rows_seen_ = 0;
};

}  // namespace atoll::table
