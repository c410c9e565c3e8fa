// See absence_search.h.
#include "table/foreign/absence_search.h"

#include "base/mutant.h"

namespace atoll::table {

void AbsenceSearch::close() {
  cursor_.reset();
  range_ = {};
}

bool AbsenceSearch::is_absent(const IndexLayout &index, const std::string &start) {
  const lsm::Family *const family = table_.family();
  const std::string end = codec::key_after_prefix(start);
  const uint64_t ended = table_.transaction()->commits_seen(family);
  if (table_.transaction()->has_written_in(family, start, end)) return false;
  if (!range_.contains_range(start, end, ended) && !search(index, start, end, ended)) return false;
  return table_.transaction()->lock_range(table_.family(), start, end, true).entry.empty() &&
         table_.transaction()->commits_seen(family) == ended;
}

// A search to the end of the index tells more than one to `end`, but it reads blocks that the other one does
// not read. AbsentRange decides when it is due.
bool AbsenceSearch::search(const IndexLayout &index, const std::string &start, const std::string &end,
                           uint64_t ended) {
  show_commits(index, ended);
  const bool is_wide = range_.is_search_due() && !is_mutant(Mutant::absent_children);
  cursor_->set_bounds(start, is_wide ? index.end : end);
  cursor_->Seek(start);
  const bool failed = !cursor_->status().ok();
  const std::string_view next =
      cursor_->Valid() ? cursor_->key().ToStringView() : std::string_view(is_wide ? index.end : end);
  if (is_wide) range_.set(start, failed ? start : next, ended);
  return !failed && next >= end;
}

// Makes the cursor show what the transactions have committed that have ended before `ended` was read.
void AbsenceSearch::show_commits(const IndexLayout &index, uint64_t ended) {
  if (cursor_ && (ended == ended_ || cursor_->refresh())) {
    ended_ = ended;
    return;
  }
  txn::ScanOptions options;
  options.lower = index.start;
  options.upper = index.end;
  options.hidden_max = kHiddenMax;
  options.committed_only = true;
  cursor_ = table_.transaction()->scan(table_.family(), txn::ReadAt::kLatest, options);
  ended_ = ended;
}

}  // namespace atoll::table
