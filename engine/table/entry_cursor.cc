// See entry_cursor.h.
#include "table/entry_cursor.h"

#include "base/mutant.h"

namespace atoll::table {

// Makes a cursor whose bounds are those of the whole table with all its indexes. The caller narrows them with
// set_bounds().
std::unique_ptr<txn::Cursor> EntryCursor::make(txn::ReadAt at, txn::ScanOptions options) const {
  options.lower = table_.layout().primary_index().start.substr(0, codec::kKeyPrefixLength);
  options.upper = codec::key_after_prefix(options.lower);
  return table_.transaction()->scan(table_.family(), at, options);
}

// Whether the open cursor shows the same entries as a new cursor would. A locking read needs the newest
// entries, also those that other transactions have committed since the cursor was opened.
bool EntryCursor::is_current() const {
  if (!cursor_ || writes_ != table_.transaction()->write_count() || is_mutant(Mutant::cursor_reuse))
    return false;
  return !table_.locking() || (sequence_ == table_.newest_sequence() && has_seen_all_commits());
}

// Call before the cursor is opened: what is written or committed in between counts as not shown.
void EntryCursor::note_opening() {
  writes_ = table_.transaction()->write_count();
  commits_ = table_.transaction()->commits_seen(table_.family());
  sequence_ = table_.locking() ? table_.newest_sequence() : 0;
}

void EntryCursor::open(const Bounds &bounds, bool whole_table) {
  if (is_current()) return set_bounds(bounds);
  if (!table_.locking()) table_.transaction()->make_snapshot();
  note_opening();
  const bool shows_newest = cursor_ && table_.locking() && writes_ == 0;
  if (!shows_newest || !cursor_->refresh()) {
    txn::ScanOptions options;
    if (whole_table) options.readahead_bytes = 2 << 20;
    cursor_ = make(table_.read_at(), options);
  }
  set_bounds(bounds);
}

void EntryCursor::open_for_estimates(const Bounds &bounds) {
  if (!cursor_ || writes_ != kForEstimates) {
    cursor_ = make(txn::ReadAt::kLatest, {});
    writes_ = kForEstimates;
  }
  set_bounds(bounds);
}

void EntryCursor::open_for_lookups(uint64_t hidden_max) {
  note_opening();
  txn::ScanOptions options;
  options.hidden_max = hidden_max;
  options.committed_only = true;
  cursor_ = make(table_.read_at(), options);
  const IndexLayout &rows = table_.layout().primary_index();
  set_bounds({rows.start, rows.end});
}

Status EntryCursor::find_later_own_write(std::string_view key, bool *found) const {
  *found = false;
  if (!has_later_own_writes()) return Status::Ok();
  return table_.transaction()->has_written(table_.family(), key, found);
}

void EntryCursor::seek_start(const std::string &key, bool forward) {
  if (!forward && key.empty()) return cursor_->SeekToLast();
  seek(key, forward);
  if (!forward && valid() && this->key() == key) step(false);
}

}  // namespace atoll::table
