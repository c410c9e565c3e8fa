// Reads many ranges of one index, such as those of an IN list or of a join that gathers keys (batched key
// access).
//
// A plain read takes many ranges before it returns their rows, and looks up all these rows in one MultiGet.
// So rows in the bucket are fetched by many requests at once, instead of one request after the other. The
// rows come in the order of the ranges.
//
// The server's default code reads range by range. It is used for a single range, for reads with locks, and
// for index-only reads. By the primary key, it is used from the first range on that is not a whole key,
// because the rows of such a range need no lookup.
#pragma once

#include "handler/server.h"

#include <memory>
#include <utility>
#include <vector>

#include "handler/read/search_keys.h"
#include "table/row_cursor.h"

namespace atoll::handler {

// Returns `end`, or nullptr if the range is open at this end.
inline const key_range *given(const key_range &end) { return end.keypart_map ? &end : nullptr; }

class MultiRange {
 public:
  // The arguments must outlive this object. The ranges are those that the server has given to `file`
  // (handler::mrr_iter).
  MultiRange(::handler *file, const table::OpenTable *table, table::RowCursor *reader, const SearchKeys *keys)
      : file_(*file), table_(*table), reader_(*reader), keys_(*keys) {}

  // Called when the server begins to read `range_count` ranges.
  void begin(uint range_count);
  // Called when the statement is over.
  void end();
  // Called before the first row. Decides whether rows are looked up in batches, the first batch with
  // `rows_wanted` rows. *found is kTooNew if the table is too new for the snapshot. Errors: as a read.
  Status decide(size_t rows_wanted, table::RowCursor::Found *found);
  bool is_decided() const { return way_ != Way::kUndecided; }
  bool is_ahead() const { return way_ == Way::kAhead; }

  // Returns the next row. Requires: is_ahead(). *found is kNone if there is no row left, or if the server
  // must read the ranges that are left; is_ahead() is false then. Errors: as a read; kInterrupted.
  Status next(uint8_t *record, table::RowCursor::Found *found);
  // The range of the row that was read last, and whether that range has at most one row.
  range_id_t range() const { return origin().range; }
  bool is_one_row() const { return origin().is_one_row; }
  // How many ranges were begun since the last call of this function.
  size_t take_ranges_begun() { return std::exchange(ranges_begun_, 0); }

  // Returns whether a range was taken from the server but not read; the next call returns false. The range is
  // handler::mrr_cur_range, and must be read before all others.
  bool take_unread() { return std::exchange(has_unread_, false); }

 private:
  // How the ranges are read; begin() and decide() choose it for each read. kAhead: this object gathers the
  // rows of many ranges in batches, and next() changes to kOneByOne at a range that it cannot read so.
  // kOneByOne: the server's default code reads range by range.
  enum class Way : uint8_t { kUndecided, kAhead, kOneByOne };
  struct Origin {
    range_id_t range;
    bool is_one_row;
  };

  const Origin &origin() const { return origins_[reader_.batch().next - 1]; }
  bool reads_rows() const { return table_.layout().is_primary(file_.active_index); }
  Status gather(table::RowCursor::Found *found);
  bool start_next_range();

  ::handler &file_;
  const table::OpenTable &table_;
  table::RowCursor &reader_;
  const SearchKeys &keys_;
  Way way_ = Way::kUndecided;
  bool has_ended_ = false;       // the server has no more ranges
  bool has_unread_ = false;      // a range was taken from the server and not read, see take_unread()
  std::vector<Origin> origins_;  // the range of each row of the batch
  size_t ranges_begun_ = 0;
};

}  // namespace atoll::handler
