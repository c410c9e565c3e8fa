// See row_changes.h.
#include "table/statistics/row_changes.h"

#include <algorithm>
#include <utility>

namespace atoll::table {
namespace {

RowChanges::Counts::iterator find(RowChanges::Counts *counts, uint32_t table) {
  return std::ranges::find(*counts, table, &RowChanges::Counts::value_type::first);
}

RowChanges::Counts without_unchanged(RowChanges::Counts counts) {
  std::erase_if(counts, [](const auto &table) { return table.second == 0; });
  return counts;
}

}  // namespace

void RowChanges::make_last(uint32_t table) {
  if (const auto known = find(&counts_, table); known != counts_.end())
    std::iter_swap(known, counts_.end() - 1);
  else
    counts_.emplace_back(table, 0);
}

void RowChanges::note_savepoint(size_t number) {
  at_savepoints_.resize(number);
  at_savepoints_.push_back(counts_);
}

RowChanges::Counts RowChanges::roll_back_to(size_t number) {
  Counts undone = std::move(counts_);
  at_savepoints_.resize(std::min(at_savepoints_.size(), number + 1));
  counts_ = number < at_savepoints_.size() ? at_savepoints_[number] : Counts();
  for (const auto &[table, rows] : counts_)
    if (const auto after = find(&undone, table); after != undone.end()) after->second -= rows;
  return without_unchanged(std::move(undone));
}

RowChanges::Counts RowChanges::roll_back() {
  at_savepoints_.clear();
  return without_unchanged(std::exchange(counts_, {}));
}

void RowChanges::clear() {
  counts_.clear();
  at_savepoints_.clear();
}

}  // namespace atoll::table
