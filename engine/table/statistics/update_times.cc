// See update_times.h.
#include "table/statistics/update_times.h"

#include <algorithm>

namespace atoll::table {

void UpdateTimes::note(const RowChanges::Counts &changes, int64_t time_s, const Exists &exists) {
  if (changes.empty()) return;
  const MutexLock lock(mutex_);
  for (const auto &[table, rows] : changes) times_[table] = time_s;
  if (times_.size() > tables_max_) forget_dropped(exists);
}

int64_t UpdateTimes::of(uint32_t table) const {
  const MutexLock lock(mutex_);
  const auto found = times_.find(table);
  return found == times_.end() ? 0 : found->second;
}

// The next call comes when the number of times has doubled, so that the time for it stays small compared with
// that of the commits in between.
void UpdateTimes::forget_dropped(const Exists &exists) {
  std::erase_if(times_, [&exists](const auto &table) { return !exists(table.first); });
  tables_max_ = std::max(kTablesMin, 2 * times_.size());
}

}  // namespace atoll::table
