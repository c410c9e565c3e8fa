// Goal:   a configuration that lacks a setting, or asks for less, takes nothing from the database.
// Method: configurations and settings in all orders.
#include "plugin/merged_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atoll::plugin {
namespace {

using testing::HasSubstr;

const KeptValues kDefaults{0, 1000, ""};

TEST(MergedSettingsTest, without_settings_in_the_bucket_the_configuration_counts) {
  const KeptValues configured{60, 5, "daily 7"};
  const MergedSettings merged = merge_settings(configured, kDefaults, nullptr);
  EXPECT_TRUE(merged.used == configured && merged.notes.empty());
}

TEST(MergedSettingsTest, a_configuration_that_says_nothing_takes_what_was_decided) {
  const KeptValues kept{172800, 7, "hourly 24"};
  const MergedSettings merged = merge_settings(kDefaults, kDefaults, &kept);
  EXPECT_EQ(merged.used, kept);
  ASSERT_EQ(merged.notes.size(), 3u);
  EXPECT_EQ(merged.notes[0].first, LogLevel::kInfo);
  EXPECT_THAT(merged.notes[0].second, HasSubstr("atoll_history_retention is 172800"));
  EXPECT_THAT(merged.notes[2].second, HasSubstr("'hourly 24'"));
  EXPECT_TRUE(merge_settings(kept, kDefaults, &kept).notes.empty()) << "nothing to say";
}

TEST(MergedSettingsTest, a_configuration_that_asks_for_more_is_heeded_and_one_for_less_is_not) {
  const KeptValues little{60, 2000, "daily 7"}, much{120, 3000, "daily 8, hourly 2"};
  EXPECT_EQ(merge_settings(much, kDefaults, &little).used, much);
  const MergedSettings merged = merge_settings(little, kDefaults, &much);
  EXPECT_EQ(merged.used, much);
  ASSERT_EQ(merged.notes.size(), 3u);
  for (const auto &[level, note] : merged.notes) EXPECT_EQ(level, LogLevel::kWarning) << note;
  EXPECT_THAT(merged.notes[0].second, HasSubstr("SET GLOBAL atoll_history_retention = 60"));
  EXPECT_THAT(merged.notes[2].second, HasSubstr("SET GLOBAL atoll_snapshot_schedule = 'daily 7'"));
}

TEST(MergedSettingsTest, a_setting_that_was_lowered_on_purpose_stays_low) {
  const KeptValues none{0, 1, ""};
  EXPECT_EQ(merge_settings(kDefaults, kDefaults, &none).used, none);
}

}  // namespace
}  // namespace atoll::plugin
