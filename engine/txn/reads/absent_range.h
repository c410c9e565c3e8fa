// Keys that no committed row has, remembered from one row to the next while many rows are inserted.
//
// Rows often come in the order of their keys, with none of others between them: then one search tells of all
// of them what a lookup tells of each. Searches begin when there are many rows, and become rare where they do
// not pay.
//
// Why an answer stays right: a new key is committed by a transaction that has locked it, and that transaction
// is counted in FamilyActivity::ended when its commit is visible, before its locks go. So whoever has locked
// the key, and finds the count as it was before the search, knows that the search has seen all there is.
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
  // For a key of which contains() knows nothing: whether to search from it on, instead of looking it up.
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
