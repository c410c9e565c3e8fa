// The part of RowCursor that finds entries in an index and looks up their rows, many at a time (row_batch.h).
#include "base/work.h"
#include "table/row_cursor.h"

namespace atoll::table {
namespace {

Status stopped() { return Status(Code::kInterrupted, ""); }

}  // namespace

// Adds the entry under the cursor, and the key of its row, to the batch, unless a pushed condition or filter
// refuses the entry. *accepted: kEnd when the entry lies after the end of the range.
Status RowCursor::add_entry(Accepted *accepted) {
  const std::string_view key = entries_.key();
  // The filter only saves lookups of rows, so skipping it is allowed. It is skipped if the index holds only a
  // prefix of a column, because the filter may compare the whole column.
  const bool is_filtered =
      view_.has_row_filter() && filter_.asks_entry_conditions() && scanned_index().cut_fields.empty();
  *accepted = Accepted::kYes;
  if (view_.has_entry_condition())
    ATOLL_RETURN_IF_ERROR(check_entry_condition(key, entries_.value(), view_.record(), accepted));
  else if (is_filtered)
    ATOLL_RETURN_IF_ERROR(decode_entry(key, entries_.value(), view_.record()));
  if (*accepted != Accepted::kYes) return Status::Ok();
  std::string primary_key;
  ATOLL_RETURN_IF_ERROR(layout().primary_of_entry(index(), key, &primary_key));
  if (is_filtered) {
    primary_key_ = primary_key;
    ATOLL_RETURN_IF_ERROR(check_row_filter(accepted));
    if (*accepted != Accepted::kYes) return Status::Ok();
  }
  batch_.entry_keys.emplace_back(key);
  batch_.primary_keys.push_back(std::move(primary_key));
  return Status::Ok();
}

// Evaluates the server's pushed condition on an entry. Does not change *accepted if the entry passes.
Status RowCursor::check_entry_condition(std::string_view key, std::string_view value, uint8_t *record,
                                        Accepted *accepted) {
  ATOLL_RETURN_IF_ERROR(decode_entry(key, value, record));
  if (!filter_.asks_entry_conditions()) return Status::Ok();
  count_work(WorkKind::kConditions);
  const Verdict verdict = view_.check_entry();
  if (verdict == Verdict::kRefused) *accepted = Accepted::kNo;
  if (verdict == Verdict::kBehindRange) *accepted = Accepted::kEnd;
  return verdict == Verdict::kStop ? stopped() : Status::Ok();
}

Status RowCursor::check_row_filter(Accepted *accepted) {
  const Verdict verdict = view_.check_row_filter();
  if (verdict == Verdict::kRefused) *accepted = Accepted::kNo;
  if (verdict == Verdict::kBehindRange) *accepted = Accepted::kEnd;
  return verdict == Verdict::kStop ? stopped() : Status::Ok();
}

Status RowCursor::gather_batch(bool forward) {
  for (; entries_.valid() && batch_.entry_keys.size() < batch_.want; entries_.step(forward)) {
    if (is_killed()) return stopped();
    Accepted accepted = Accepted::kNo;
    ATOLL_RETURN_IF_ERROR(add_entry(&accepted));
    batch_.ended = accepted == Accepted::kEnd;
    if (batch_.ended) return Status::Ok();
  }
  if (entries_.valid()) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(entries_.status());
  batch_.ended = true;
  return Status::Ok();
}

Status RowCursor::look_up(Found *found) {
  *found = Found::kNone;
  if (batch_.primary_keys.empty()) return Status::Ok();
  const std::vector<rocksdb::Slice> keys(batch_.primary_keys.begin(), batch_.primary_keys.end());
  batch_.unread = table_.transaction()->multi_get(table_.family(), keys, table_.read_at(), &batch_.rows,
                                                  &batch_.statuses);
  batch_.grow();
  *found = Found::kRow;
  return Status::Ok();
}

// Gathers entries from the cursor's position on, looks up their rows in one MultiGet, and delivers the first
// row. If no row of a batch passes the conditions, reads the next batch. An empty batch ends the scan.
Status RowCursor::read_batch(bool forward, uint8_t *record, Found *found) {
  batch_.forward = forward;
  move_to(Place::kBehindBatch);
  for (;;) {
    batch_.clear();
    ATOLL_RETURN_IF_ERROR(gather_batch(forward));
    ATOLL_RETURN_IF_ERROR(look_up(found));
    if (*found == Found::kNone) return Status::Ok();
    ATOLL_RETURN_IF_ERROR(next_of_batch(record, found));
    if (*found == Found::kRow || batch_.ended) return Status::Ok();
  }
}

// Makes sure that the row at position `i` of the batch is in batch_.rows: reads it now if MultiGet has left
// it out because the batch was too large. Frees the memory of the row at position i - 1.
Status RowCursor::row_of_batch(size_t i) {
  if (i > 0) batch_.rows[i - 1].Reset();
  if (batch_.next_unread == batch_.unread.size() || batch_.unread[batch_.next_unread] != i)
    return batch_.statuses[i];
  ++batch_.next_unread;
  return table_.transaction()->get(table_.family(), batch_.primary_keys[i], table_.read_at(),
                                   &batch_.rows[i]);
}

Status RowCursor::next_of_batch(uint8_t *record, Found *found) {
  *found = Found::kNone;
  while (!batch_.empty()) {
    const size_t i = batch_.next++;
    const Status status = row_of_batch(i);
    if (status.code() == Code::kNotFound) continue;
    ATOLL_RETURN_IF_ERROR(status);
    const std::string_view packed = batch_.rows[i].ToStringView();
    if (filter_.may_refuse()) {
      bool passes = false;
      ATOLL_RETURN_IF_ERROR(filter_.evaluate(batch_.primary_keys[i], packed, &passes));
      if (!passes) continue;
    }
    key_ = batch_.entry_keys[i];
    primary_key_ = batch_.primary_keys[i];
    *found = Found::kRow;
    return unpack(packed, record);
  }
  return Status::Ok();
}

// ---- Many ranges ---------------------------------------------------------------------------------

Status RowCursor::begin_ranges(size_t rows_wanted, Found *found) {
  filter_.ask(RowFilter::Asked::kAll);
  *found = Found::kTooNew;
  if (!begin_reading() || table_.is_newer_than_snapshot(scanned_index().readable_from)) return Status::Ok();
  if (reads_rows())
    table_.transaction()->make_snapshot();
  else
    entries_.open(bounds_.current());
  note_moved();
  bounds_.forget_prefix();
  batch_.restart(rows_wanted);
  batch_.ended = true;  // no range has begun yet, so gather() adds nothing
  *found = Found::kNone;
  return Status::Ok();
}

void RowCursor::begin_range(const Bounds &bounds) {
  entries_.set_bounds(bounds);
  entries_.seek(bounds.lower, true);
  batch_.ended = false;
}

Status RowCursor::gather() { return batch_.ended ? Status::Ok() : gather_batch(true); }

void RowCursor::add_row(std::string primary_key) {
  batch_.entry_keys.push_back(primary_key);
  batch_.primary_keys.push_back(std::move(primary_key));
}

}  // namespace atoll::table
