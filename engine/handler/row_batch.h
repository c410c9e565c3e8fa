// Rows fetched ahead by an index scan that must look up rows by primary key: one MultiGet for many entries
// instead of one read each. With a bucket behind, that is many requests in flight instead of one.
//
// A batch starts small where the statement may stop early (LIMIT, subqueries) and grows eightfold.
#pragma once

#include <rocksdb/slice.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace atoll::handler {

struct RowBatch {
  static constexpr size_t kRowsMax = 1024;
  static constexpr size_t kRowsFirst = 128;  // when all matching rows will be read

  std::vector<std::string> entry_keys;
  std::vector<std::string> primary_keys;
  std::vector<rocksdb::PinnableSlice> rows;
  std::vector<Status> statuses;
  size_t next = 0;     // first row not yet returned
  size_t want = 1;     // entries to gather next time
  bool ended = false;  // the index (or the prefix) has no more entries

  bool empty() const { return next >= entry_keys.size(); }

  // Forgets the rows, not the size.
  void clear() {
    entry_keys.clear();
    primary_keys.clear();
    rows.clear();
    statuses.clear();
    next = 0;
  }
  void restart(size_t first = 1) {
    clear();
    want = first;
    ended = false;
  }
  void grow() { want = want * 8 > kRowsMax ? kRowsMax : want * 8; }
};

}  // namespace atoll::handler
