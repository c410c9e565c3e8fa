// Reads many ranges of one index, as those of IN lists and of joins that gather keys (batched key access).
//
// A plain read goes through the ranges before it returns rows, and looks up the rows of many of them in one
// MultiGet: with a bucket behind, that is many requests in flight instead of one for each range. The rows
// come in the order of the ranges. Reads of one range, with locks, or of entries alone go the server's way,
// range by range; so do, for the primary key, all ranges from the first one on that is not a whole key,
// because its rows need no looking up.
#pragma once

#include "handler/server.h"

#include <memory>
#include <utility>
#include <vector>

#include "handler/read/search_keys.h"
#include "table/row_cursor.h"

namespace atoll::handler {

// The end of a range that the server gives; nullptr: the range is open there.
inline const key_range *given(const key_range &end) { return end.keypart_map ? &end : nullptr; }

class MultiRange {
 public:
  // All outlive this object. The ranges are those that the server has given to `file` (handler::mrr_iter).
  MultiRange(::handler *file, const std::shared_ptr<const Layout> &layout, table::RowCursor *reader,
             const SearchKeys *keys)
      : file_(*file), layout_(layout), reader_(*reader), keys_(*keys) {}

  // Called when a read begins.
  void begin(uint range_count);
  // Called when the statement is over.
  void end();
  // Before the first row: decides whether rows are looked up together, `rows_wanted` of them at first.
  // kTooNew: the table is too new for the snapshot. Errors: of reading.
  Status decide(size_t rows_wanted, table::RowCursor::Found *found);
  bool is_decided() const { return way_ != Way::kUndecided; }
  bool is_ahead() const { return way_ == Way::kAhead; }

  // The next row. Requires: is_ahead(). kNone: there is none left, or is_ahead() no longer holds and the
  // server reads the other ranges. Errors: of reading; kInterrupted.
  Status next(uint8_t *record, table::RowCursor::Found *found);
  // The range of the row just read, and whether that range has at most one row.
  range_id_t range() const { return origin().range; }
  bool is_one_row() const { return origin().is_one_row; }
  // How many ranges were begun since this was asked last.
  size_t take_ranges_begun() { return std::exchange(ranges_begun_, 0); }

  // Was a range taken from the server that is to be read before the others? Then it is
  // handler::mrr_cur_range.
  bool take_unread() { return std::exchange(has_unread_, false); }

 private:
  enum class Way : uint8_t { kUndecided, kAhead, kOneByOne };
  struct Origin {
    range_id_t range;
    bool is_one_row;
  };

  const Origin &origin() const { return origins_[reader_.batch().next - 1]; }
  bool reads_rows() const { return layout_->is_primary(file_.active_index); }
  Status gather(table::RowCursor::Found *found);
  bool start_next_range();

  ::handler &file_;
  const std::shared_ptr<const Layout> &layout_;
  table::RowCursor &reader_;
  const SearchKeys &keys_;
  Way way_ = Way::kUndecided;
  bool has_ended_ = false;       // there are no more ranges
  bool has_unread_ = false;      // see take_unread()
  std::vector<Origin> origins_;  // of the rows of the batch
  size_t ranges_begun_ = 0;
};

}  // namespace atoll::handler
