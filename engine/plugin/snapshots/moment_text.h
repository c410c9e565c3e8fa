// Writes points in time as text for users.
#pragma once

#include <cstdint>
#include <string>

namespace atoll::plugin {

// Returns the text of a time in microseconds since 1970: "2026-01-31 23:59:59.000000 UTC".
std::string utc_text(uint64_t time_us);

}  // namespace atoll::plugin
