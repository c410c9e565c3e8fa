// Bounds of the engine's work that a test can switch off, to show that the cost contracts notice the
// additional work (make cost-mutants).
//
// Only a build with ATOLL_MUTANTS has these switches; in other builds is_mutant() is false at compile time.
// The environment variable ATOLL_MUTANT of the server names the bound to switch off.
#pragma once

#include <cstdlib>
#include <string_view>

#include "base/namespace.h"

namespace atoll {

// Each line has the name of a mutant, and says what the engine does while that mutant is chosen.
#define ATOLL_EACH_MUTANT(X)                                              \
  X(range_upper)     /* a range read has no upper end */                  \
  X(range_lower)     /* a range read backwards has no lower end */        \
  X(prefix)          /* an exact search reads on beyond its key */        \
  X(loose_range)     /* a loose index scan searches beyond its range */   \
  X(first_row)       /* a search without bounds checks conditions */      \
  X(cursor_reuse)    /* each search opens a new cursor */                 \
  X(many_ranges)     /* ranges of a multi-range read have no upper end */ \
  X(probe)           /* an estimate counts a thousand entries */          \
  X(remembered)      /* entries that an estimate read are read again */   \
  X(batch)           /* the first batch of rows always has 1024 rows */   \
  X(index_condition) /* the server checks the index condition */          \
  X(point_get)       /* a cursor searches for a row by its primary key */ \
  X(scan_predicate)  /* the server checks all rows of a full scan */      \
  X(absent_range)    /* an INSERT looks up each of its many new keys */   \
  X(absent_children) /* each removed parent is searched for children */   \
  X(queue_heads)     /* a search passes all that was deleted before */    \
  X(one_row_known)   /* an estimate reads an index though another index is known to find one row */

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
