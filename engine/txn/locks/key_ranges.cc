// See key_ranges.h.

#include "txn/locks/key_ranges.h"

#include <iterator>
#include <utility>

namespace atoll::txn {

void KeyRanges::add(std::string_view lower, std::string_view upper, size_t ranges_max) {
  if (lower >= upper) return;
  auto it = ranges_.upper_bound(lower);
  if (it != ranges_.begin() && std::prev(it)->second >= lower) {
    --it;
    if (it->second >= upper) return;
    it->second.assign(upper);
  } else {
    it = ranges_.emplace_hint(it, lower, upper);
  }
  join_with_followers(it);
  if (ranges_.size() > ranges_max) halve();
}

void KeyRanges::join_with_followers(Map::iterator it) {
  auto next = std::next(it);
  while (next != ranges_.end() && next->first <= it->second) {
    if (next->second > it->second) it->second = std::move(next->second);
    next = ranges_.erase(next);
  }
}

void KeyRanges::halve() {
  for (auto it = ranges_.begin(); it != ranges_.end(); ++it) {
    const auto next = std::next(it);
    if (next == ranges_.end()) return;
    it->second = std::move(next->second);
    ranges_.erase(next);
  }
}

bool KeyRanges::overlaps(std::string_view lower, std::string_view upper) const {
  const auto it = ranges_.lower_bound(upper);
  return it != ranges_.begin() && std::prev(it)->second > lower;
}

bool KeyRanges::contains(std::string_view key) const {
  const auto it = ranges_.upper_bound(key);
  return it != ranges_.begin() && std::prev(it)->second > key;
}

}  // namespace atoll::txn
