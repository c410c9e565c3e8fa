// Which snapshots the server is to make and to drop by itself. Pure functions.
//
// A schedule as atoll_snapshot_schedule has it: "hourly 24, daily 7" keeps the last 24 of the snapshots that
// are made each hour, and the last 7 of those of each day. Days, weeks (from Monday) and months begin in UTC.
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

struct SnapshotRule {
  SnapshotPeriod period = SnapshotPeriod::kHour;
  size_t keep = 0;  // the newest so many
};

using SnapshotSchedule = std::vector<SnapshotRule>;

// None: `text` is no schedule. "" is one without rules. Words are hourly, daily, weekly, monthly, each at
// most once; numbers 1 to 1000.
std::optional<SnapshotSchedule> parse_snapshot_schedule(std::string_view text);

// The name of the snapshot for the period that `now` lies in: "hourly 2026-11-24 21:00 UTC",
// "daily 2026-11-24 UTC", "weekly 2026-11-23 UTC" (the Monday), "monthly 2026-11 UTC".
std::string scheduled_name(SnapshotPeriod period, time_t now);

struct SnapshotWork {
  std::vector<std::string> make, drop;
};

// What `schedule` asks for at `now`, when the snapshots `existing` are there. Drops only snapshots with names
// of the schedule's own form, of its periods.
SnapshotWork scheduled_work(const SnapshotSchedule &schedule, time_t now,
                            const std::vector<std::string> &existing);

}  // namespace atoll::plugin
