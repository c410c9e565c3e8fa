// Decides which settings of the history and of the schedule a server uses when it opens a database: those of
// its configuration, or those that the database has in the bucket (rule SETTINGS-2). Pure functions.
//
// The configuration may ask for more than the database, and then the database asks for it, too. A
// configuration that asks for less, or says nothing, changes nothing: SET GLOBAL does.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"

namespace atoll::plugin {

struct KeptValues {
  unsigned int retention_s = 0;
  unsigned long long bytes_max = 0;
  std::string schedule;
  bool operator==(const KeptValues &) const = default;
};

struct MergedSettings {
  KeptValues used;
  // Lines for the error log: one for each setting that the database decides, and for each that it decides
  // from now on because the configuration asks for more.
  std::vector<std::pair<LogLevel, std::string>> notes;
};

// `defaults`: the values of a configuration that says nothing. `kept`: nullptr if the bucket has no settings.
MergedSettings merge_settings(const KeptValues &configured, const KeptValues &defaults,
                              const KeptValues *kept);

}  // namespace atoll::plugin
