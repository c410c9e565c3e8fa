// Bounds that can be switched off, to show that the cost contracts notice (make cost-mutants).
//
// Only a build with ATOLL_MUTANTS has the switch; in any other one the condition is gone when it is compiled.
// The variable ATOLL_MUTANT of the server's environment names the bound.
#pragma once

#include <cstdlib>
#include <string_view>

#include "base/namespace.h"

namespace atoll {

#define ATOLL_EACH_MUTANT(X)                                              \
  X(range_upper)     /* a range read has no upper end */                  \
  X(range_lower)     /* a range read backwards has no lower end */        \
  X(prefix)          /* an exact search goes on behind its keys */        \
  X(loose_range)     /* a loose scan searches behind its range */         \
  X(first_row)       /* a search without bounds filters rows */           \
  X(cursor_reuse)    /* each search opens a cursor */                     \
  X(many_ranges)     /* a range of many has no upper end */               \
  X(probe)           /* an estimate counts a thousand entries */          \
  X(remembered)      /* what an estimate has read is read again */        \
  X(batch)           /* a batch of rows is large where few are wanted */  \
  X(index_condition) /* an index condition is left to the server */       \
  X(point_get)       /* a row by its whole primary key is searched for */ \
  X(scan_predicate)  /* rows of a full scan are left to the server */     \
  X(absent_range)    /* each of many new keys is looked up */             \
  X(one_row_known)   /* an index is searched though another finds one row */

enum class Mutant {
#define ATOLL_MUTANT_NAME(name) name,
  ATOLL_EACH_MUTANT(ATOLL_MUTANT_NAME)
#undef ATOLL_MUTANT_NAME
};

#ifdef ATOLL_MUTANTS
inline bool is_mutant(Mutant asked) {
  static constexpr std::string_view kNames[] = {
#define ATOLL_MUTANT_TEXT(name) #name,
      ATOLL_EACH_MUTANT(ATOLL_MUTANT_TEXT)
#undef ATOLL_MUTANT_TEXT
  };
  static const char *const chosen = std::getenv("ATOLL_MUTANT");
  return chosen != nullptr && kNames[static_cast<size_t>(asked)] == chosen;
}
#else
constexpr bool is_mutant(Mutant) { return false; }
#endif

}  // namespace atoll
