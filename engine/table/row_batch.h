// Rows fetched ahead by an index scan that must look up rows by primary key: one MultiGet for many entries
// instead of one read each. With a bucket behind, that is many requests in flight instead of one.
//
// The first batch has as many rows as the statement wants at first (Seek::rows_wanted); the next one has
// eight times as many, and so on. Rows that would make a batch larger than Transaction::kMultiGetBytesMax are
// read when their turn comes.
#pragma once

#include <rocksdb/slice.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace atoll::table {

struct RowBatch {
  static constexpr size_t kRowsMax = 1024;

  std::vector<std::string> entry_keys;
  std::vector<std::string> primary_keys;
  std::vector<rocksdb::PinnableSlice> rows;
  std::vector<Status> statuses;
  std::vector<size_t> unread;  // positions, ascending; from next_unread on
  size_t next_unread = 0;      // in `unread`
  size_t next = 0;             // first row not yet returned
  size_t want = 1;             // entries to gather next time
  bool ended = false;          // there are no more entries within the bounds
  bool forward = true;         // the direction it was gathered in

  bool empty() const { return next >= entry_keys.size(); }

  // Forgets the rows, not the size.
  void clear() {
    entry_keys.clear();
    primary_keys.clear();
    rows.clear();
    statuses.clear();
    unread.clear();
    next = next_unread = 0;
  }
  // Forgets all but the row returned last: what the server has of it may point into it.
  void keep_last() {
    for (size_t i = next; i < rows.size(); i++) rows[i].Reset();
    next = entry_keys.size();
  }
  void restart(size_t first = 1) {
    clear();
    want = first;
    ended = false;
  }
  void grow() { want = want * 8 > kRowsMax ? kRowsMax : want * 8; }
};

}  // namespace atoll::table
