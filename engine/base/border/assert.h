// Conditions that only a mistake in Atoll's own code can break. When one is broken, the server ends before it
// writes wrong data: what was committed is in the log, and the next start reads it. Bad input, damaged files
// and failed requests are errors (base/status.h), never assertions.
//
//     ATOLL_ASSERT(grant->taken > 0);              in every build: for cheap conditions
//     ATOLL_ASSERT_DEAR(opens(packed));            only in builds with a sanitizer (ATOLL_PARANOID)
#pragma once

#include "base/namespace.h"

#define ATOLL_ASSERT(condition)            \
  (__builtin_expect(bool{condition}, true) \
       ? static_cast<void>(0)              \
       : ::atoll::end_for_broken_condition(#condition, __FILE__, __LINE__))

#ifdef ATOLL_PARANOID
#define ATOLL_ASSERT_DEAR(condition) ATOLL_ASSERT(condition)
#else
#define ATOLL_ASSERT_DEAR(condition) static_cast<void>(0)
#endif

namespace atoll {

// Writes the condition to stderr, which is the server's error log, and aborts the process.
[[noreturn]] void end_for_broken_condition(const char *condition, const char *file, int line) noexcept;

}  // namespace atoll
