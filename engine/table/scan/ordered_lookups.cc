// See ordered_lookups.h.
#include "table/scan/ordered_lookups.h"

#include <algorithm>

namespace atoll::table {

bool OrderedLookups::find(const std::string &key, bool *exists, std::string_view *packed) {
  const bool is_ascending = key >= last_;
  last_.assign(key);
  // A locking read has locked the row, so the row's last writer has ended, and the cursor has to show its
  // commit.
  if (!is_ascending || (is_following_ && table_.locking() && !cursor_.has_seen_all_commits())) {
    is_following_ = false;
    ascending_ = 0;
    return false;
  }
  if (!is_following_ && ++ascending_ < wanted_) return false;
  if (!is_following_) follow(key);
  bool is_written = false;
  if (!table_.transaction()->has_written(table_.family(), key, &is_written).ok() || is_written) return false;
  for (uint32_t steps = 0; cursor_.valid() && cursor_.key() < key; cursor_.step(true))
    if (++steps > kStepsMax) return stop();
  if (!cursor_.valid() && !cursor_.status().ok()) return stop();
  *exists = cursor_.valid() && cursor_.key() == key;
  if (!*exists) return true;
  *packed = cursor_.value();
  wanted_ = kKeysMin;
  return true;
}

// Moves a new cursor to `key`. It shows no own writes, so it can stay open when these are undone.
void OrderedLookups::follow(const std::string &key) {
  cursor_.open_for_lookups(kHiddenMax);
  cursor_.seek(key, true);
  is_following_ = true;
}

// Always returns false.
bool OrderedLookups::stop() {
  is_following_ = false;
  ascending_ = 0;
  wanted_ = std::min(2 * wanted_, kKeysMax);
  return false;
}

void OrderedLookups::close() {
  cursor_.close();
  last_.clear();
  is_following_ = false;
  ascending_ = 0;
  wanted_ = kKeysMin;
}

}  // namespace atoll::table
