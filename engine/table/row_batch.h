// Rows that an index scan reads ahead when it must look up rows by primary key. One MultiGet reads the rows
// of many entries, so many requests to the bucket run at the same time instead of one after the other.
//
// The first batch has as many rows as the statement wants at first (Seek::rows_wanted). Each later batch has
// eight times as many as the batch before, up to kRowsMax. Rows that would make a batch larger than
// Transaction::kMultiGetBytesMax are read one by one when the scan returns them.
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
  std::vector<size_t> unread;  // ascending positions of rows that MultiGet has not read (kMultiGetBytesMax)
  size_t next_unread = 0;      // position in `unread` of the first row that is still not read
  size_t next = 0;             // position of the first row that was not returned yet
  size_t want = 1;             // the number of entries to gather for the next batch
  bool ended = false;          // no entry within the bounds is left to gather
  bool forward = true;         // the direction in which the batch was gathered

  bool empty() const { return next >= entry_keys.size(); }

  // Forgets the rows, but keeps the size of the next batch (`want`).
  void clear() {
    entry_keys.clear();
    primary_keys.clear();
    rows.clear();
    statuses.clear();
    unread.clear();
    next = next_unread = 0;
  }
  // Forgets all rows except the row returned last, because BLOBs in the server's record may point into it.
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
