// See assert.h.
#include "base/border/assert.h"

#include <cstdio>
#include <cstdlib>

#include "base/log.h"

namespace atoll {

void end_for_broken_condition(const char *condition, const char *file, int line) noexcept {
  char message[512];
  std::snprintf(
      message, sizeof(message),
      "Atoll ends the server because of a mistake in its own code, before wrong data are written: %s is "
      "not true (%s:%d). Start it again, and report this line",
      condition, file, line);
  log_at_level(static_cast<int>(LogLevel::kError), message);
  std::fprintf(stderr, "%s\n", message);
  std::abort();
}

}  // namespace atoll
