// Remembers a range of keys that no committed row has, while a transaction inserts many rows.
//
// Rows often come in the order of their keys, and no rows of others lie between them. Then one search tells
// of all these keys what a lookup tells of one. Searches begin when a transaction inserts many rows, and
// become rare where they do not pay.
//
// Why an answer stays right: a transaction that commits a new key has locked the key. FamilyActivity::ended
// counts this transaction after its commit is visible and before it releases its locks. So if a transaction
// has locked a key, and the count is the same as before the search, then the search has seen every committed
// row with that key.
// Tests: absent_range_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/namespace.h"

namespace atoll::txn {

// Threads: one at a time.
class AbsentRange {
 public:
  // True: no committed row has `key`. Requires: `ended` was read after the key was locked.
  bool contains(std::string_view key, uint64_t ended) {
    if (ended != ended_ || key < lower_ || key >= upper_) return false;
    ++rows_served_;
    return true;
  }
  // Call it for a key for which contains() was false. True: search from this key on instead of looking it up.
  bool is_search_due() {
    if (std::exchange(is_used_, false)) {
      pause_ = rows_served_ < kRowsMin ? std::clamp(pause_ * 2, kRowsMin, kPauseMax) : 0;
      lookups_left_ = pause_;
    }
    if (lookups_left_ == 0) return true;
    --lookups_left_;
    return false;
  }
  // The outcome of a search: nothing in [lower, upper). `ended` was read before it.
  void set(std::string_view lower, std::string_view upper, uint64_t ended) {
    lower_ = lower;
    upper_ = upper;
    ended_ = ended;
    rows_served_ = 0;
    is_used_ = true;
  }

 private:
  // A search costs as much as some lookups. If its range has served fewer rows, the next search waits, longer
  // each time.
  static constexpr uint32_t kRowsMin = 8;
  static constexpr uint32_t kPauseMax = 4096;

  std::string lower_, upper_;
  uint64_t ended_ = 0;
  uint32_t rows_served_ = 0;
  uint32_t pause_ = 0;
  uint32_t lookups_left_ = kRowsMin;
  bool is_used_ = false;
};

}  // namespace atoll::txn
