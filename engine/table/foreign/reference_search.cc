// See reference_search.h.
#include "table/foreign/reference_search.h"

#include <algorithm>

namespace atoll::table {
namespace {

// How many rows a statement remembers. A statement that inserts many children has few parents, or so many
// that remembering them does not pay.
constexpr size_t kKnown = 256;

// A statement that removes many parents, each with children, looks in vain only so often.
constexpr uint32_t kVainLooksMax = 8;

size_t place_of(const std::string &start) { return std::hash<std::string>()(start) % kKnown; }

// The position among the stored columns of the column in a part of an index; -1: it is virtual. Columns are
// told apart by their places in the record, because the source of a part need not have an id.
int stored_column(const Layout &layout, const codec::KeyPart &part) {
  for (size_t i = 0; i < layout.row().column_count(); i++)
    if (layout.row().column(i).record_offset == part.source.record_offset) return static_cast<int>(i);
  return -1;
}

// The stored columns of an index. The cursor unpacks them in order to see whether a row still has the entry
// by which it was found.
std::vector<uint32_t> stored_columns_of(const Layout &layout, size_t index) {
  std::vector<uint32_t> stored;
  if (layout.is_primary(index)) return stored;
  for (const codec::KeyPart &part : layout.index(index).parts)
    if (const int column = stored_column(layout, part); column >= 0)
      stored.push_back(static_cast<uint32_t>(column));
  std::sort(stored.begin(), stored.end());
  stored.erase(std::unique(stored.begin(), stored.end()), stored.end());
  return stored;
}

}  // namespace

bool ViewWithoutTable::compute_virtual_columns(size_t index, uint8_t *) {
  for (const codec::KeyPart &part : table_.layout().index(index).parts)
    if (stored_column(table_.layout(), part) < 0) return false;
  return true;
}

ReferenceSearch::ReferenceSearch(Statement *statement, txn::LockTable *locks, Target target)
    : target_(std::move(target)), table_(statement), cursor_(&table_, &locks_, &view_) {
  record_.resize(target_.record_bytes);
  table_.connect(locks, false);
  table_.set_layout(target_.layout);
  table_.mutable_mode()->lock = RowLock::kShared;
  std::vector<uint32_t> &stored = cursor_.wanted().stored;
  stored = stored_columns_of(table_.layout(), target_.index);
  const auto row_end = static_cast<uint32_t>(target_.row_end);
  if (target_.row_end >= 0 && !std::binary_search(stored.begin(), stored.end(), row_end))
    stored.insert(std::upper_bound(stored.begin(), stored.end(), row_end), row_end);
}

// A present row has the largest TIMESTAMP(6) as its end. Until MariaDB 11.4 this is one in 2038, later one in
// 2106.
bool ReferenceSearch::is_history() const {
  static constexpr std::string_view kMax("\x7F\xFF\xFF\xFF\x0F\x42\x3F", 7);
  static constexpr std::string_view kLaterMax("\xFF\xFF\xFF\xFF\x0F\x42\x3F", 7);
  if (target_.row_end < 0) return false;
  const codec::Column &column = table_.layout().row().column(static_cast<size_t>(target_.row_end));
  const std::string_view end = std::string_view(record_).substr(column.record_offset, kMax.size());
  return end != kMax && end != kLaterMax;
}

void ReferenceSearch::end_statement() {
  cursor_.end_statement();
  absence_.close();
  lookups_.close();
  row_.Reset();
  vain_looks_ = 0;
  statement_++;
}

Status ReferenceSearch::find(const std::string &start, bool *found) {
  *found = is_known(start);
  return *found || is_absent(start) ? Status::Ok() : look_up(start, found);
}

bool ReferenceSearch::shows_none(const std::string &start) {
  if (vain_looks_ >= kVainLooksMax) return false;
  const bool is_none = is_absent(start);
  vain_looks_ = is_none ? 0 : vain_looks_ + 1;
  return is_none;
}

bool ReferenceSearch::is_whole_primary_key() const {
  return table_.layout().is_primary(target_.index) &&
         target_.parts == table_.layout().index(target_.index).user_parts;
}

// Without protected ranges, and by a whole primary key, a search locks less than the range of the key.
bool ReferenceSearch::is_absent(const std::string &start) {
  return target_.expects_none && table_.protects_ranges() && !is_whole_primary_key() &&
         absence_.is_absent(table_.layout().index(target_.index), start);
}

// Locks the row of a whole primary key and looks it up. This is what RowCursor::get() does for a row that is
// there, without what only conditions, records and snapshots need. If there is no row, nothing is locked.
Status ReferenceSearch::find_row(const std::string &key, bool *found) {
  ATOLL_RETURN_IF_ERROR(locks_.lock(key, table_.mode().lock, nullptr));
  std::string_view packed;
  if (lookups_.find(key, found, &packed) && *found) return Status::Ok();
  const Status status = table_.transaction()->get(table_.family(), key, table_.read_at(), &row_);
  *found = status.ok();
  if (status.code() != Code::kNotFound) return status;
  locks_.release(key);
  return Status::Ok();
}

Status ReferenceSearch::look_up(const std::string &start, bool *found) {
  const bool is_one_row = is_whole_primary_key();
  if (is_one_row && !target_.expects_none && target_.row_end < 0 &&
      !table_.statement().refuses_changed_rows()) {
    ATOLL_RETURN_IF_ERROR(find_row(start, found));
    if (*found) return remember(start, start);
  }
  auto *record = reinterpret_cast<uint8_t *>(record_.data());
  RowCursor::Found result = RowCursor::Found::kNone;
  cursor_.begin_index(target_.index);
  if (is_one_row)
    ATOLL_RETURN_IF_ERROR(cursor_.get(start, false, record, &result));
  else
    ATOLL_RETURN_IF_ERROR(
        cursor_.search({.key = start, .prefix = start, .parts = target_.parts}, record, &result));
  while (result == RowCursor::Found::kRow && is_history())
    ATOLL_RETURN_IF_ERROR(cursor_.next_same(record, &result));
  if (result == RowCursor::Found::kTooNew)
    return Status(Code::kBug, "a search for a reference has a snapshot");
  *found = result == RowCursor::Found::kRow;
  cursor_.end_index();
  return *found ? remember(start, table_.row_key()) : Status::Ok();
}

// A committed row that this transaction has locked stays, unless the transaction itself removes it. A row
// that the transaction has written is never remembered: a rollback to a savepoint may take it away.
Status ReferenceSearch::remember(const std::string &start, const std::string &row_key) {
  txn::Transaction *transaction = table_.transaction();
  if (transaction_id_ != transaction->id()) statement_++;
  transaction_id_ = transaction->id();
  bool is_written = false;
  ATOLL_RETURN_IF_ERROR(transaction->has_written(table_.family(), row_key, &is_written));
  if (is_written) return Status::Ok();
  if (known_.empty()) known_.resize(kKnown);
  Known &known = known_[place_of(start)];
  known.statement = statement_;
  known.start = start;
  known.row_key = row_key;
  return Status::Ok();
}

bool ReferenceSearch::is_known(const std::string &start) const {
  if (known_.empty() || transaction_id_ != table_.transaction()->id()) return false;
  const Known &known = known_[place_of(start)];
  if (known.statement != statement_ || known.start != start) return false;
  bool is_written = true;
  return table_.transaction()->has_written(table_.family(), known.row_key, &is_written).ok() && !is_written;
}

}  // namespace atoll::table
