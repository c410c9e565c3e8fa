// See ordered_lookups.h.
#include "table/scan/ordered_lookups.h"

#include <algorithm>

namespace atoll::table {

bool OrderedLookups::find(const std::string &key, bool *exists, std::string_view *packed) {
  const bool is_ascending = key >= last_;
  last_.assign(key);
  if (!is_ascending || (is_following_ && table_.locking() && commits_ != commits_seen())) {
    is_following_ = false;
    ascending_ = 0;
    return false;
  }
  if (is_following_ && has_later_own_write(key)) return false;
  if (!is_following_ && (++ascending_ < wanted_ || !follow(key))) return false;
  for (uint32_t steps = 0; is_behind(key); cursor_->Next())
    if (++steps > kStepsMax) return stop();
  if (!cursor_->Valid() && !cursor_->status().ok()) return stop();
  *exists = cursor_->Valid() && cursor_->key().ToStringView() == key;
  if (!*exists) return true;
  *packed = cursor_->value().ToStringView();
  wanted_ = kKeysMin;
  return true;
}

// Counts the transactions that have written to the family and have ended. The cursor of a locking read has to
// show their writes. The caller has locked the row, so its last writer has ended.
uint64_t OrderedLookups::commits_seen() const { return table_.transaction()->commits_seen(table_.family()); }

bool OrderedLookups::has_later_own_write(const std::string &key) const {
  txn::Transaction *transaction = table_.transaction();
  if (writes_ == transaction->write_count()) return false;
  bool has_written = false;
  return !transaction->has_written(table_.family(), key, &has_written).ok() || has_written;
}

// Moves a new cursor to `key`. Returns false if the cursor would show own writes: it could not stay open when
// these are undone.
bool OrderedLookups::follow(const std::string &key) {
  const IndexLayout &rows = table_.layout().primary_index();
  txn::ScanOptions options;
  options.lower = rows.start;
  options.upper = rows.end;
  options.hidden_max = kHiddenMax;
  writes_ = table_.transaction()->write_count();
  commits_ = commits_seen();
  cursor_ = table_.transaction()->scan(table_.family(), table_.read_at(), options);
  if (cursor_->has_own_writes()) {
    cursor_.reset();
    return stop();
  }
  cursor_->Seek(key);
  is_following_ = true;
  return true;
}

// Always returns false.
bool OrderedLookups::stop() {
  is_following_ = false;
  ascending_ = 0;
  wanted_ = std::min(2 * wanted_, kKeysMax);
  return false;
}

void OrderedLookups::close() {
  cursor_.reset();
  last_.clear();
  is_following_ = false;
  ascending_ = 0;
  wanted_ = kKeysMin;
}

}  // namespace atoll::table
