// Goal:   a table has the time of the last commit that changed it, and dropped tables take no memory.
// Method: scenes with a table that exists and many that are dropped.
#include "table/statistics/update_times.h"

#include <gtest/gtest.h>

namespace atoll::table {
namespace {

bool always(uint32_t) { return true; }

TEST(UpdateTimesTest, the_last_commit_counts) {
  UpdateTimes times;
  times.note({{1, 5}, {2, 0}}, 100, always);
  times.note({{1, -5}}, 200, always);
  EXPECT_EQ(times.of(1), 200);
  EXPECT_EQ(times.of(2), 100) << "an UPDATE changes no number of rows";
  EXPECT_EQ(times.of(3), 0);
}

TEST(UpdateTimesTest, only_tables_that_exist_are_kept_when_there_are_many) {
  UpdateTimes times;
  const auto last = static_cast<uint32_t>(UpdateTimes::kTablesMin + 1);
  const auto only_last = [last](uint32_t table) { return table == last; };
  for (uint32_t table = 1; table < last; table++) times.note({{table, 1}}, 100, only_last);
  EXPECT_EQ(times.of(1), 100) << "there are few tables yet";
  times.note({{last, 1}}, 200, only_last);
  EXPECT_EQ(times.of(1), 0);
  EXPECT_EQ(times.of(last), 200);
}

}  // namespace
}  // namespace atoll::table
