// Remembers when each table was last changed by a commit, for UPDATE_TIME in information_schema.TABLES.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "base/mutex.h"
#include "table/statistics/row_changes.h"

namespace atoll::table {

// The times are kept in memory only: after a restart no table has one, as with InnoDB. Threads: any.
class UpdateTimes {
 public:
  // How many tables may have a time before those that do not exist any more are looked for.
  static constexpr size_t kTablesMin = 1000;

  using Exists = std::function<bool(uint32_t table)>;

  // Notes that a transaction with these changes was committed at `time_s`, in seconds since 1970. Also a
  // table whose number of rows has not changed was changed. `exists` is asked now and then, so that the times
  // of dropped tables do not fill the memory.
  void note(const RowChanges::Counts &changes, int64_t time_s, const Exists &exists);
  // 0: no commit has changed the table since the server started.
  int64_t of(uint32_t table) const;

 private:
  void forget_dropped(const Exists &exists) ATOLL_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<uint32_t, int64_t> times_ ATOLL_GUARDED_BY(mutex_);
  size_t tables_max_ ATOLL_GUARDED_BY(mutex_) = kTablesMin;  // then forget_dropped() is called
};

}  // namespace atoll::table
