// See assert.h.
#include "base/border/assert.h"

#include <cstdio>
#include <cstdlib>

namespace atoll {

void end_for_broken_condition(const char *condition, const char *file, int line) noexcept {
  char message[512];
  std::snprintf(
      message, sizeof(message),
      "Atoll ends the server because of a mistake in its own code, before wrong data are written: %s is "
      "not true (%s:%d). Start it again, and report this line",
      condition, file, line);
  std::fprintf(stderr, "%s\n", message);  // the server's error log
  std::abort();
}

}  // namespace atoll
