// ha_atoll: many ranges of one index, as of IN lists and of joins that gather keys (batched key access).
//
// A plain read goes through the ranges before it returns rows, and looks up the rows of many of them in one
// MultiGet: with a bucket behind, that is many requests in flight instead of one for each range. The rows
// come in the order of the ranges. Reads of one range, with locks, or of entries alone go the server's
// way, range by range.
#include "handler/ha_atoll.h"

#include <sql_select.h>

#include "handler/read/counted_pages.h"
#include "base/mutant.h"

using atoll::Status;
namespace ah = atoll::handler;
namespace at = atoll::table;
using Found = at::RowCursor::Found;
using Way = ah::MultiRange::Way;

namespace {

// nullptr: the range is open there.
const key_range *given(const key_range &end) { return end.keypart_map ? &end : nullptr; }

}  // namespace

// Joins gather keys only for engines that have a way of their own, and users who allow it (optimizer_switch).
uint ha_atoll::own_mode(uint wanted, uint mode) const {
  const bool allowed = !(wanted & HA_MRR_USE_DEFAULT_IMPL) && optimizer_flag(ha_thd(), OPTIMIZER_SWITCH_MRR);
  return allowed ? mode & ~HA_MRR_USE_DEFAULT_IMPL : mode;
}

ha_rows ha_atoll::multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *ranges_context,
                                              uint range_count, uint *buffer_bytes, uint *mode,
                                              Cost_estimate *cost) {
  const uint wanted = *mode;
  const ha_rows rows = ::handler::multi_range_read_info_const(index, ranges, ranges_context, range_count,
                                                              buffer_bytes, mode, cost);
  if (rows != HA_POS_ERROR) *mode = own_mode(wanted, *mode);
  return rows;
}

ha_rows ha_atoll::multi_range_read_info(uint index, uint range_count, uint rows, uint parts,
                                        uint *buffer_bytes, uint *mode, Cost_estimate *cost) {
  const uint wanted = *mode;
  const ha_rows error =
      ::handler::multi_range_read_info(index, range_count, rows, parts, buffer_bytes, mode, cost);
  if (error == 0) *mode = own_mode(wanted, *mode);
  return error;
}

int ha_atoll::multi_range_read_explain_info(uint mode, char *text, size_t text_bytes_max) noexcept {
  if (mode & HA_MRR_USE_DEFAULT_IMPL) return 0;
  const std::string_view name = "Batched rows";
  const size_t bytes = std::min(name.size(), text_bytes_max);
  std::memcpy(text, name.data(), bytes);
  return static_cast<int>(bytes);
}

int ha_atoll::multi_range_read_init(RANGE_SEQ_IF *ranges, void *ranges_context, uint range_count, uint mode,
                                    HANDLER_BUFFER *buffer) {
  multi_range_ = {};
  if (range_count == 1) multi_range_.way = Way::kOneByOne;
  reader_.restart_batch();
  return ::handler::multi_range_read_init(ranges, ranges_context, range_count, mode, buffer);
}

// A join hands over conditions that may concern both the index entry and the join's own row; at this point
// all columns of the row are there. The server never sees a row that such a condition refuses, so it could
// not release the row's lock; this function does.
int ha_atoll::multi_range_read_next(range_id_t *range) {
  for (;;) {
    const int error = next_row_of_ranges(range);
    table->status = error ? STATUS_NOT_FOUND : 0;
    if (error) return show_read_error(error);
    if (mrr_funcs.skip_index_tuple == nullptr || !mrr_funcs.skip_index_tuple(mrr_iter, *range)) return 0;
    if (locking()) unlock_row();
  }
}

int ha_atoll::next_row_of_ranges(range_id_t *range) {
  const ah::CountedPages pages(handler_stats);
  if (multi_range_.way == Way::kUndecided)
    if (int error = begin_ranges()) return error;
  while (multi_range_.way == Way::kAhead) {
    Found found = Found::kNone;
    const Status status = reader_.next_of_batch(table->record[0], &found);
    if (!status.ok()) return read_result(status, found, 0);
    if (found == Found::kRow) {
      note_row_of_range(multi_range_.origins[reader_.batch().next - 1], range);
      return 0;
    }
    if (multi_range_.ended) return HA_ERR_END_OF_FILE;
    if (int error = gather_ranges()) return error;
    if (multi_range_.must_reread && reader_.batch().empty()) multi_range_.way = Way::kOneByOne;
  }
  return read_current_range(range);
}

void ha_atoll::note_row_of_range(const ah::MultiRange::Origin &origin, range_id_t *range) {
  if (!origin.unique) increment_statistics(&SSV::ha_read_next_count);
  update_index_statistics();
  if (table->vfield) table->update_virtual_fields(this, VCOL_UPDATE_FOR_READ);
  *range = origin.range;
}

// Before the first range.
int ha_atoll::begin_ranges() {
  const bool primary = layout_->is_primary(active_index);
  if (locking() || (!primary && !reader_.is_batching())) {
    multi_range_.way = Way::kOneByOne;
    return 0;
  }
  multi_range_.way = Way::kAhead;
  set_end_range(nullptr);
  Found found = Found::kNone;
  const Status status = reader_.begin_ranges(rows_wanted(true), &found);
  return read_result(status, found, 0);
}

// Fills the batch from the range under the cursor and those behind it, and looks up its rows.
int ha_atoll::gather_ranges() {
  if (view_.is_killed()) return HA_ERR_ABORTED_BY_USER;
  reader_.begin_batch();
  multi_range_.origins.clear();
  const at::RowBatch &batch = reader_.batch();
  while (batch.entry_keys.size() < batch.want) {
    if (batch.ended && !start_next_range()) break;
    if (Status status = reader_.gather(); !status.ok()) return read_result(status, Found::kNone, 0);
    const bool unique = layout_->is_primary(active_index) || (mrr_cur_range.range_flag & UNIQUE_RANGE);
    multi_range_.origins.resize(batch.entry_keys.size(), {mrr_cur_range.ptr, unique});
  }
  Found found = Found::kNone;
  const Status status = reader_.look_up(&found);
  return read_result(status, found, 0);
}

// Takes the next range: the key of a row goes into the batch, for a range of entries the cursor goes to its
// start. False when there is none, or it must be read in the server's way: a range of rows needs no looking
// up.
bool ha_atoll::start_next_range() {
  if (multi_range_.must_reread) return false;
  if (mrr_funcs.next(mrr_iter, &mrr_cur_range)) {
    multi_range_.ended = true;
    return false;
  }
  size_t parts = 0;
  at::Bounds bounds;
  range_bounds(active_index, given(mrr_cur_range.start_key), given(mrr_cur_range.end_key), &bounds, &parts);
  if (!layout_->is_primary(active_index)) {
    increment_statistics(&SSV::ha_read_key_count);
    if (atoll::is_mutant(atoll::Mutant::many_ranges)) bounds.upper = layout_->index(active_index).end;
    reader_.begin_range(bounds);
    return true;
  }
  if (!(mrr_cur_range.range_flag & EQ_RANGE) || parts != layout_->primary_index().user_parts) {
    multi_range_.must_reread = true;
    return false;
  }
  increment_statistics(&SSV::ha_read_key_count);
  reader_.add_row(std::move(bounds.lower));
  return true;
}

// The server's way. What was read ahead ends with a range that has been fetched from it and not read.
int ha_atoll::read_current_range(range_id_t *range) {
  if (multi_range_.must_reread) {
    multi_range_.must_reread = false;
    mrr_have_range = true;
    const bool equality = mrr_cur_range.range_flag & EQ_RANGE;
    *range = mrr_cur_range.ptr;
    const int error = read_range_first(given(mrr_cur_range.start_key), given(mrr_cur_range.end_key), equality,
                                       mrr_is_output_sorted);
    if (error != HA_ERR_END_OF_FILE) return error;
  }
  return ::handler::multi_range_read_next(range);
}
