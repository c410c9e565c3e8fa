// Counts the rows of a table that differ between two states of a database. Compares the keys of the primary
// index and the bytes that are stored under them, without decoding either.
//
// If the table has the same column family and key prefix in both states, only keys in table files that one of
// the states lacks are read (lsm/past/changed_keys.h). If it was rebuilt, truncated or moved, all rows of
// both states are read.
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
  uint64_t keys_read = 0;  // how many keys were compared
};

// Threads: any, one at a time.
class RowDiff {
 public:
  // The states come from PastDatabase::visit() and must outlive this object.
  RowDiff(lsm::PastDatabase *first, lsm::PastDatabase *second) : first_(first), second_(second) {}

  // Compares one table. `before` and `after`: its definition in each state; nullptr: that state lacks the
  // table. Errors: kCorruption; kUnavailable: the same call may succeed later; kInterrupted
  // (base/interrupt.h).
  Status compare(const catalog::TableDef *before, const catalog::TableDef *after, RowCounts *out);

 private:
  lsm::PastDatabase *const first_;
  lsm::PastDatabase *const second_;
};

}  // namespace atoll::visitor
