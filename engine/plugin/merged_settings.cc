// See merged_settings.h.
#include "plugin/merged_settings.h"

#include <algorithm>

#include "plugin/snapshots/snapshot_schedule.h"

namespace atoll::plugin {
namespace {

std::string shown(unsigned long long number) { return std::to_string(number); }
std::string shown(const std::string &text) { return "'" + text + "'"; }

// Returns what is used of `configured` and `kept`. `is_enough`: the configuration asks for at least as much
// as the database.
template <typename Value>
Value merge(const std::string &name, const Value &configured, const Value &by_default, const Value &kept,
            bool is_enough, MergedSettings *merged) {
  if (configured == kept) return kept;
  if (configured == by_default) {
    merged->notes.emplace_back(LogLevel::kInfo, name + " is " + shown(kept) + ", as was decided for this " +
                                                    "database; the configuration does not say");
    return kept;
  }
  if (is_enough) {
    merged->notes.emplace_back(LogLevel::kInfo, name + " is " + shown(configured) +
                                                    ", as the configuration says; for this database " +
                                                    shown(kept) + " had been decided");
    return configured;
  }
  merged->notes.emplace_back(LogLevel::kWarning, name + " is " + shown(kept) +
                                                     ", as was decided for this database; the " +
                                                     "configuration asks for less, " + shown(configured) +
                                                     ", which a restart does not bring about: SET GLOBAL " +
                                                     name + " = " + shown(configured));
  return kept;
}

}  // namespace

MergedSettings merge_settings(const KeptValues &configured, const KeptValues &defaults,
                              const KeptValues *kept) {
  MergedSettings merged{configured, {}};
  if (kept == nullptr) return merged;
  merged.used.retention_s = merge("atoll_history_retention", configured.retention_s, defaults.retention_s,
                                  kept->retention_s, configured.retention_s > kept->retention_s, &merged);
  merged.used.bytes_max = merge("atoll_history_max_bytes", configured.bytes_max, defaults.bytes_max,
                                kept->bytes_max, configured.bytes_max > kept->bytes_max, &merged);
  merged.used.schedule = merge("atoll_snapshot_schedule", configured.schedule, defaults.schedule,
                               kept->schedule, keeps_at_least(configured.schedule, kept->schedule), &merged);
  return merged;
}

}  // namespace atoll::plugin
