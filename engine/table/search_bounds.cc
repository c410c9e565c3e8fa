// See search_bounds.h.
#include "table/search_bounds.h"

#include <utility>

#include "base/mutant.h"

namespace atoll::table {

void SearchBounds::restart() {
  prefix_.clear();
  has_next_ = false;
  range_end_.clear();
}

void SearchBounds::give(Bounds bounds) {
  next_ = std::move(bounds);
  has_next_ = true;
  range_end_ = next_.upper;
}

void SearchBounds::open(const IndexLayout &index) {
  current_.lower = index.start;
  current_.upper = index.end;
}

bool SearchBounds::begin(const Seek &seek, const IndexLayout &index) {
  const bool given = std::exchange(has_next_, false);
  if (given)
    std::swap(current_, next_);
  else
    open(index);
  const bool is_loose = !given && seek.reach == Seek::Reach::kAfterKey && seek.key <= range_end_;
  if (is_loose && !is_mutant(Mutant::loose_range)) current_.upper = range_end_;
  if (is_mutant(Mutant::range_upper)) current_.upper = index.end;
  if (is_mutant(Mutant::range_lower)) current_.lower = index.start;
  prefix_ = seek.prefix;
  prefix_stays_ = seek.prefix_stays;
  const bool may_refuse =
      given || seek.reach == Seek::Reach::kWholeIndex || !seek.prefix.empty() || is_mutant(Mutant::first_row);
  if (seek.prefix.empty() || is_mutant(Mutant::prefix)) return may_refuse;
  if (current_.lower < seek.prefix) current_.lower = seek.prefix;
  std::string end = codec::key_after_prefix(seek.prefix);
  if (end < current_.upper) current_.upper = std::move(end);
  return may_refuse;
}

}  // namespace atoll::table
