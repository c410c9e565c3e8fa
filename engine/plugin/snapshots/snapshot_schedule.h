// Computes which snapshots the server makes and drops by a schedule. Pure functions.
//
// A schedule is the text of atoll_snapshot_schedule. For example, "hourly 24, daily 7" makes a snapshot each
// hour and keeps the newest 24 of these, and makes one each day and keeps the newest 7. Days, weeks (from
// Monday) and months begin in UTC.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/namespace.h"

namespace atoll::plugin {

enum class SnapshotPeriod : uint8_t { kHour, kDay, kWeek, kMonth };

// One rule of a schedule: how often, and how many snapshots stay.
struct SnapshotRule {
  SnapshotPeriod period = SnapshotPeriod::kHour;
  size_t keep = 0;  // the number of newest snapshots to keep
};

using SnapshotSchedule = std::vector<SnapshotRule>;

// Returns nullopt when `text` is no schedule. "" is a schedule without rules. A rule is hourly, daily, weekly
// or monthly, each at most once, and a number from 1 to 1000.
std::optional<SnapshotSchedule> parse_snapshot_schedule(std::string_view text);

// Whether the schedule `text` makes and keeps at least the snapshots that `other` does: for each rule of
// `other` it has one of the same period that keeps as many. False if one of them is no schedule.
bool keeps_at_least(std::string_view text, std::string_view other);

// Returns the name of the snapshot for the period that contains `now`: "hourly 2026-11-24 21:00 UTC",
// "daily 2026-11-24 UTC", "weekly 2026-11-23 UTC" (the Monday), "monthly 2026-11 UTC".
std::string scheduled_name(SnapshotPeriod period, time_t now);

// The names of the snapshots that are to be made and dropped now.
struct SnapshotWork {
  std::vector<std::string> make, drop;
};

// Returns which snapshots to make and to drop at `now`. `existing`: the names of the snapshots that exist.
// Drops only snapshots whose names have the form of scheduled_name(), for periods in the schedule.
SnapshotWork scheduled_work(const SnapshotSchedule &schedule, time_t now,
                            const std::vector<std::string> &existing);

}  // namespace atoll::plugin
