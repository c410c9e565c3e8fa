// Goal:   a schedule says exactly which snapshots to make and to drop, and never drops a user's own.
// Method: times around the starts of hours, days, weeks, months and years.
#include "plugin/snapshots/snapshot_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atoll::plugin {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// 2027-01-01 00:00 UTC, in seconds since 1970. This day is a Friday.
constexpr time_t kNewYear = 1798761600;

TEST(SnapshotScheduleTest, text_is_a_schedule_or_refused) {
  const auto schedule = parse_snapshot_schedule(" hourly 24 ,daily  7");
  ASSERT_TRUE(schedule && schedule->size() == 2);
  EXPECT_TRUE((*schedule)[0].period == SnapshotPeriod::kHour && (*schedule)[0].keep == 24);
  EXPECT_TRUE((*schedule)[1].period == SnapshotPeriod::kDay && (*schedule)[1].keep == 7);
  EXPECT_TRUE(parse_snapshot_schedule("")->empty() && parse_snapshot_schedule("  ")->empty());
  for (const char *wrong :
       {"hourly", "hourly 0", "hourly -1", "hourly 1001", "hourly x", "hourly 3x", "yearly 2", "hourly 3,",
        ",", "hourly 3 daily 2", "hourly 3, hourly 4", "Hourly 3", "hourly3"})
    EXPECT_FALSE(parse_snapshot_schedule(wrong)) << wrong;
}

TEST(SnapshotScheduleTest, a_schedule_keeps_at_least_another_one_or_not) {
  EXPECT_TRUE(keeps_at_least("daily 7, hourly 24", "hourly 24"));
  EXPECT_TRUE(keeps_at_least("daily 7", "") && keeps_at_least("", "") &&
              keeps_at_least("daily 7", "daily 7"));
  EXPECT_FALSE(keeps_at_least("daily 6", "daily 7") || keeps_at_least("weekly 7", "daily 7"));
  EXPECT_FALSE(keeps_at_least("", "daily 7") || keeps_at_least("daily", "") || keeps_at_least("", "daily"));
}

TEST(SnapshotScheduleTest, names_say_when_their_period_began) {
  EXPECT_EQ(scheduled_name(SnapshotPeriod::kHour, kNewYear + 3599), "hourly 2027-01-01 00:00 UTC");
  EXPECT_EQ(scheduled_name(SnapshotPeriod::kHour, kNewYear - 1), "hourly 2026-12-31 23:00 UTC");
  EXPECT_EQ(scheduled_name(SnapshotPeriod::kDay, kNewYear - 1), "daily 2026-12-31 UTC");
  EXPECT_EQ(scheduled_name(SnapshotPeriod::kWeek, kNewYear), "weekly 2026-12-28 UTC");
  EXPECT_EQ(scheduled_name(SnapshotPeriod::kWeek, kNewYear + 3 * 86400 - 1), "weekly 2026-12-28 UTC");
  EXPECT_EQ(scheduled_name(SnapshotPeriod::kWeek, kNewYear + 3 * 86400), "weekly 2027-01-04 UTC");
  EXPECT_EQ(scheduled_name(SnapshotPeriod::kMonth, kNewYear - 1), "monthly 2026-12 UTC");
}

TEST(SnapshotScheduleTest, the_newest_of_each_period_stay_and_those_of_users_too) {
  const SnapshotSchedule schedule = *parse_snapshot_schedule("hourly 2, daily 2");
  const std::vector<std::string> existing = {"hourly 2026-12-31 22:00 UTC",
                                             "hourly 2026-12-31 23:00 UTC",
                                             "hourly 2026-12-31 21:00 UTC",
                                             "daily 2026-12-31 UTC",
                                             "daily 2026-12-30 UTC",
                                             "weekly 2020-01-06 UTC",
                                             "hourly report",
                                             "hourly 2026-12-31 20:00 UTC!",
                                             "before upgrade"};
  const SnapshotWork work = scheduled_work(schedule, kNewYear, existing);
  EXPECT_THAT(work.make, ElementsAre("hourly 2027-01-01 00:00 UTC", "daily 2027-01-01 UTC"));
  EXPECT_THAT(work.drop, ElementsAre("hourly 2026-12-31 22:00 UTC", "hourly 2026-12-31 21:00 UTC",
                                     "daily 2026-12-30 UTC"));
}

TEST(SnapshotScheduleTest, what_is_there_is_not_made_again) {
  const SnapshotSchedule schedule = *parse_snapshot_schedule("monthly 1");
  const SnapshotWork work =
      scheduled_work(schedule, kNewYear, {"monthly 2027-01 UTC", "monthly 2026-12 UTC"});
  EXPECT_THAT(work.make, IsEmpty());
  EXPECT_THAT(work.drop, ElementsAre("monthly 2026-12 UTC"));
  EXPECT_THAT(scheduled_work({}, kNewYear, {"monthly 2026-12 UTC"}).drop, IsEmpty());
}

TEST(SnapshotScheduleTest, the_snapshot_that_is_due_stays_when_the_clock_went_back) {
  const SnapshotWork work =
      scheduled_work(*parse_snapshot_schedule("daily 1"), kNewYear - 1, {"daily 2027-01-01 UTC"});
  EXPECT_THAT(work.make, ElementsAre("daily 2026-12-31 UTC"));
  EXPECT_THAT(work.drop, IsEmpty());
}

}  // namespace
}  // namespace atoll::plugin
