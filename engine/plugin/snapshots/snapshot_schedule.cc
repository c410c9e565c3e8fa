// See snapshot_schedule.h.
#include "plugin/snapshots/snapshot_schedule.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace atoll::plugin {
namespace {

constexpr size_t kKeepMax = 1000;
constexpr time_t kDaySeconds = 86400;

struct PeriodName {
  SnapshotPeriod period;
  std::string_view word;
  const char *format;      // for strftime(): makes the name from the start of the period
  std::string_view shape;  // the form of these names; 0 stands for any digit
};

constexpr std::array<PeriodName, 4> kPeriods = {{
    {SnapshotPeriod::kHour, "hourly", "hourly %Y-%m-%d %H:00 UTC", "hourly 0000-00-00 00:00 UTC"},
    {SnapshotPeriod::kDay, "daily", "daily %Y-%m-%d UTC", "daily 0000-00-00 UTC"},
    {SnapshotPeriod::kWeek, "weekly", "weekly %Y-%m-%d UTC", "weekly 0000-00-00 UTC"},
    {SnapshotPeriod::kMonth, "monthly", "monthly %Y-%m UTC", "monthly 0000-00 UTC"},
}};

const PeriodName &name_of(SnapshotPeriod period) { return kPeriods[static_cast<size_t>(period)]; }

bool has_shape(std::string_view name, std::string_view shape) {
  const auto fits = [](char c, char place) { return place == '0' ? c >= '0' && c <= '9' : c == place; };
  return std::equal(name.begin(), name.end(), shape.begin(), shape.end(), fits);
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// Reads one rule, such as "daily 7".
std::optional<SnapshotRule> parse_rule(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view word = text.substr(0, space), number = trimmed(text.substr(space));
  const auto found = std::find_if(kPeriods.begin(), kPeriods.end(),
                                  [&](const PeriodName &each) { return each.word == word; });
  SnapshotRule rule;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rule.keep);
  const bool is_number = error == std::errc() && end == number.data() + number.size();
  if (found == kPeriods.end() || !is_number || rule.keep == 0 || rule.keep > kKeepMax) return std::nullopt;
  rule.period = found->period;
  return rule;
}

}  // namespace

std::optional<SnapshotSchedule> parse_snapshot_schedule(std::string_view text) {
  SnapshotSchedule schedule;
  if (trimmed(text).empty()) return schedule;
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    const std::optional<SnapshotRule> rule = parse_rule(trimmed(text.substr(from, comma - from)));
    const auto is_same = [&](const SnapshotRule &other) { return other.period == rule->period; };
    if (!rule || std::any_of(schedule.begin(), schedule.end(), is_same)) return std::nullopt;
    schedule.push_back(*rule);
    from = comma + 1;
  }
  return schedule;
}

bool keeps_at_least(std::string_view text, std::string_view other) {
  const std::optional<SnapshotSchedule> rules = parse_snapshot_schedule(text);
  const std::optional<SnapshotSchedule> needed = parse_snapshot_schedule(other);
  if (!rules || !needed) return false;
  return std::all_of(needed->begin(), needed->end(), [&](const SnapshotRule &rule) {
    return std::any_of(rules->begin(), rules->end(), [&](const SnapshotRule &own) {
      return own.period == rule.period && own.keep >= rule.keep;
    });
  });
}

std::string scheduled_name(SnapshotPeriod period, time_t now) {
  tm utc{};
  gmtime_r(&now, &utc);
  if (period == SnapshotPeriod::kWeek) {
    const time_t monday = now - (utc.tm_wday + 6) % 7 * kDaySeconds;
    gmtime_r(&monday, &utc);
  }
  char text[64];
  return std::string(text, std::strftime(text, sizeof(text), name_of(period).format, &utc));
}

SnapshotWork scheduled_work(const SnapshotSchedule &schedule, time_t now,
                            const std::vector<std::string> &existing) {
  SnapshotWork work;
  for (const SnapshotRule &rule : schedule) {
    std::vector<std::string> own;
    for (const std::string &name : existing)
      if (has_shape(name, name_of(rule.period).shape)) own.push_back(name);
    const std::string due = scheduled_name(rule.period, now);
    if (std::find(own.begin(), own.end(), due) == own.end()) {
      work.make.push_back(due);
      own.push_back(due);
    }
    std::sort(own.rbegin(), own.rend());  // newest first, because the names order by time
    for (size_t i = rule.keep; i < own.size(); i++)
      if (own[i] != due) work.drop.push_back(own[i]);
  }
  return work;
}

}  // namespace atoll::plugin
