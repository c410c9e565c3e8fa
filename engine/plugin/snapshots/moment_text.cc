// See moment_text.h.
#include "plugin/snapshots/moment_text.h"

#include <cstdio>
#include <ctime>

namespace atoll::plugin {

std::string utc_text(uint64_t time_us) {
  const auto seconds = static_cast<time_t>(time_us / 1000000);
  tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &utc);
  std::snprintf(text + length, sizeof(text) - length, ".%06u UTC", static_cast<unsigned>(time_us % 1000000));
  return text;
}

}  // namespace atoll::plugin
