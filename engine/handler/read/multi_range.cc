// ha_atoll: many ranges of one index. See multi_range.h.
#include "handler/ha_atoll.h"

#include <sql_select.h>

#include "handler/read/counted_pages.h"
#include "base/mutant.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace at = atoll::table;
using Found = at::RowCursor::Found;

namespace atoll::handler {

void MultiRange::begin(uint range_count) {
  end();
  if (range_count == 1) way_ = Way::kOneByOne;
  reader_.restart_batch();
}

void MultiRange::end() {
  way_ = Way::kUndecided;
  has_ended_ = false;
  has_unread_ = false;
  origins_.clear();
  ranges_begun_ = 0;
}

Status MultiRange::decide(size_t rows_wanted, Found *found) {
  *found = Found::kNone;
  if (table_.locking() || (!reads_rows() && !reader_.is_batching())) {
    way_ = Way::kOneByOne;
    return Status::Ok();
  }
  way_ = Way::kAhead;
  file_.set_end_range(nullptr);
  return reader_.begin_ranges(rows_wanted, found);
}

Status MultiRange::next(uint8_t *record, Found *found) {
  for (;;) {
    ATOLL_RETURN_IF_ERROR(reader_.next_of_batch(record, found));
    if (*found == Found::kRow || has_ended_) return Status::Ok();
    ATOLL_RETURN_IF_ERROR(gather(found));
    if (!has_unread_ || !reader_.batch().empty()) continue;
    way_ = Way::kOneByOne;
    *found = Found::kNone;
    return Status::Ok();
  }
}

// Fills the batch from the current range and the ranges after it, and looks up the rows of the batch.
Status MultiRange::gather(Found *found) {
  if (table_.statement().is_killed()) return Status(Code::kInterrupted, "");
  reader_.begin_batch();
  origins_.clear();
  const at::RowBatch &batch = reader_.batch();
  while (batch.entry_keys.size() < batch.want) {
    if (batch.ended && !start_next_range()) break;
    ATOLL_RETURN_IF_ERROR(reader_.gather());
    const bool is_one_row = reads_rows() || (file_.mrr_cur_range.range_flag & UNIQUE_RANGE);
    origins_.resize(batch.entry_keys.size(), {file_.mrr_cur_range.ptr, is_one_row});
  }
  return reader_.look_up(found);
}

// Takes the next range from the server. By the primary key, the range must be the whole key of one row, which
// is added to the batch. By a secondary index, the cursor goes to the start of the range. Returns false if
// there is no range left, or if the server's default code must read this range.
bool MultiRange::start_next_range() {
  if (has_unread_) return false;
  KEY_MULTI_RANGE &range = file_.mrr_cur_range;
  if (file_.mrr_funcs.next(file_.mrr_iter, &range)) {
    has_ended_ = true;
    return false;
  }
  size_t parts = 0;
  at::Bounds bounds = keys_.bounds(file_.active_index, given(range.start_key), given(range.end_key), &parts);
  if (!reads_rows()) {
    ranges_begun_++;
    if (is_mutant(Mutant::many_ranges)) bounds.upper = table_.layout().index(file_.active_index).end;
    reader_.begin_range(bounds);
    return true;
  }
  if (!(range.range_flag & EQ_RANGE) || parts != table_.layout().primary_index().user_parts) {
    has_unread_ = true;
    return false;
  }
  ranges_begun_++;
  reader_.add_row(std::move(bounds.lower));
  return true;
}

}  // namespace atoll::handler

// Removes HA_MRR_USE_DEFAULT_IMPL from `mode` if the server asks for the engine's own way and
// optimizer_switch allows it. Only then does a join gather keys (batched key access).
uint ha_atoll::own_mode(uint wanted, uint mode) const {
  const bool allowed = !(wanted & HA_MRR_USE_DEFAULT_IMPL) && optimizer_flag(ha_thd(), OPTIMIZER_SWITCH_MRR);
  return allowed ? mode & ~HA_MRR_USE_DEFAULT_IMPL : mode;
}

ha_rows ha_atoll::ranges_info_const(uint index, RANGE_SEQ_IF *ranges, void *ranges_context, uint range_count,
                                    uint *buffer_bytes, uint *mode, const ah::RangesCost &cost) {
  const uint wanted = *mode;
  const ha_rows rows =
      ServerHandler::ranges_info_const(index, ranges, ranges_context, range_count, buffer_bytes, mode, cost);
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
  multi_range_.begin(range_count);
  return ::handler::multi_range_read_init(ranges, ranges_context, range_count, mode, buffer);
}

// A join may pass a condition on the index entry and on the join's buffered row of the other table. This
// function evaluates the condition when the whole row has been read. The server does not see a row that the
// condition refuses and so cannot release the lock of that row; this function releases it.
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
  Found found = Found::kNone;
  if (!multi_range_.is_decided()) {
    const Status status = multi_range_.decide(rows_wanted(true), &found);
    if (int error = read_result(status, found, 0)) return error;
  }
  if (multi_range_.is_ahead()) {
    const Status status = multi_range_.next(table->record[0], &found);
    for (size_t count = multi_range_.take_ranges_begun(); count > 0; count--)
      increment_statistics(&SSV::ha_read_key_count);
    if (!status.ok() || found == Found::kTooNew) return read_result(status, found, 0);
    if (found == Found::kNone && multi_range_.is_ahead()) return HA_ERR_END_OF_FILE;
    if (found == Found::kRow) {
      if (!multi_range_.is_one_row()) increment_statistics(&SSV::ha_read_next_count);
      update_index_statistics();
      if (table->vfield) table->update_virtual_fields(this, VCOL_UPDATE_FOR_READ);
      *range = multi_range_.range();
      return 0;
    }
  }
  return read_current_range(range);
}

// Reads range by range with the server's default code. When reading ahead has stopped at a range that it took
// from the server but could not read, that range is read first.
int ha_atoll::read_current_range(range_id_t *range) {
  if (multi_range_.take_unread()) {
    mrr_have_range = true;
    const bool equality = mrr_cur_range.range_flag & EQ_RANGE;
    *range = mrr_cur_range.ptr;
    const int error = read_range_first(ah::given(mrr_cur_range.start_key), ah::given(mrr_cur_range.end_key),
                                       equality, mrr_is_output_sorted);
    if (error != HA_ERR_END_OF_FILE) return error;
  }
  return ::handler::multi_range_read_next(range);
}
