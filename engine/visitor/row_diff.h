// Which rows of a table differ between two states of a database: the keys of the primary index, and the bytes
// stored under them. Both are compared as they are stored; what they mean in SQL is not asked.
//
// Where a table has the same place in both states, only keys in table files that one state lacks are looked
// at (lsm/past/changed_keys.h). Where it was rebuilt, truncated or moved, all rows of both are read.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "catalog/catalog.h"
#include "lsm/past/past_database.h"

namespace atoll::visitor {

struct RowCounts {
  uint64_t inserted = 0;
  uint64_t changed = 0;
  uint64_t deleted = 0;
  uint64_t keys_read = 0;  // how many keys were looked at
};

// Threads: any, one at a time.
class RowDiff {
 public:
  // The states are of PastDatabase::visit(), and live longer.
  RowDiff(lsm::PastDatabase *first, lsm::PastDatabase *second) : first_(first), second_(second) {}

  // Compares one table, of which each state has its own definition; nullptr: that state lacks the table.
  // Errors: kCorruption; kUnavailable: the same may work later; kInterrupted (base/interrupt.h).
  Status compare(const catalog::TableDef *before, const catalog::TableDef *after, RowCounts *out);

 private:
  lsm::PastDatabase *const first_;
  lsm::PastDatabase *const second_;
};

}  // namespace atoll::visitor
