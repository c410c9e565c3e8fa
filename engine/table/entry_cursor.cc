// See entry_cursor.h.
#include "table/entry_cursor.h"

#include "base/mutant.h"

namespace atoll::table {

// Makes a cursor whose bounds are those of the whole table with all its indexes. The caller narrows them with
// set_bounds().
std::unique_ptr<txn::Cursor> EntryCursor::make(txn::ReadAt at, bool whole_table) const {
  txn::ScanOptions options;
  options.lower = table_.layout().primary_index().start.substr(0, codec::kKeyPrefixLength);
  options.upper = codec::key_after_prefix(options.lower);
  if (whole_table) options.readahead_bytes = 2 << 20;
  return table_.transaction()->scan(table_.family(), at, options);
}

// Whether the open cursor shows the same entries as a new cursor would. A locking read needs the newest
// entries, also those that other transactions have committed since the cursor was opened.
bool EntryCursor::is_current() const {
  if (!cursor_ || writes_ != table_.transaction()->write_count() || is_mutant(Mutant::cursor_reuse))
    return false;
  return !table_.locking() || (sequence_ == table_.newest_sequence() && has_seen_all_commits());
}

void EntryCursor::open(const Bounds &bounds, bool whole_table) {
  if (is_current()) return set_bounds(bounds);
  if (!table_.locking()) table_.transaction()->make_snapshot();
  writes_ = table_.transaction()->write_count();
  commits_ = table_.transaction()->commits_seen(table_.family());
  sequence_ = table_.locking() ? table_.newest_sequence() : 0;
  const bool shows_newest = cursor_ && table_.locking() && writes_ == 0;
  if (!shows_newest || !cursor_->refresh()) cursor_ = make(table_.read_at(), whole_table);
  set_bounds(bounds);
}

void EntryCursor::open_for_estimates(const Bounds &bounds) {
  if (!cursor_ || writes_ != kForEstimates) {
    cursor_ = make(txn::ReadAt::kLatest, false);
    writes_ = kForEstimates;
  }
  set_bounds(bounds);
}

void EntryCursor::seek_start(const std::string &key, bool forward) {
  if (!forward && key.empty()) return cursor_->SeekToLast();
  seek(key, forward);
  if (!forward && valid() && this->key() == key) step(false);
}

}  // namespace atoll::table
