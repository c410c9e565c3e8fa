// While a transaction inserts many rows, remembers a range of keys that no committed row has.
//
// Rows often come in the order of their keys, and no rows of other transactions lie between them. Then one
// search shows that all these keys are free, where a lookup shows it for one key. Searches begin when a
// transaction inserts many rows, and become rare where they do not pay.
//
// Why a remembered answer stays right: a transaction that commits a new key has locked the key.
// FamilyActivity::ended counts this transaction after its commit is visible and before it releases its locks.
// So if a transaction has locked a key, and the count is the same as before the search, then the search has
// seen every committed row with that key.
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
  // True: no committed row has a key in [lower, upper). Requires: `ended` was read after the range was
  // locked.
  bool contains_range(std::string_view lower, std::string_view upper, uint64_t ended) {
    if (ended != ended_ || lower < lower_ || upper > upper_) return false;
    ++rows_served_;
    return true;
  }
  // Call for a key for which contains() was false. True: search from this key on, instead of looking the key
  // up.
  bool is_search_due() {
    if (std::exchange(is_used_, false)) {
      pause_ = rows_served_ < kRowsMin ? std::clamp(pause_ * 2, kRowsMin, kPauseMax) : 0;
      lookups_left_ = pause_;
    }
    if (lookups_left_ == 0) return true;
    --lookups_left_;
    return false;
  }
  // Stores the result of a search: no committed row has a key in [lower, upper). Requires: `ended` was read
  // before the search.
  void set(std::string_view lower, std::string_view upper, uint64_t ended) {
    lower_ = lower;
    upper_ = upper;
    ended_ = ended;
    rows_served_ = 0;
    is_used_ = true;
  }

 private:
  // A search costs as much as some lookups. If the range of the last search has served fewer rows than
  // kRowsMin, the next search comes only after `pause_` lookups. The pause doubles each time.
  static constexpr uint32_t kRowsMin = 8;
  static constexpr uint32_t kPauseMax = 4096;

  std::string lower_, upper_;         // the remembered range [lower_, upper_)
  uint64_t ended_ = 0;                // FamilyActivity::ended before the search
  uint32_t rows_served_ = 0;          // keys that contains() has found in the range
  uint32_t pause_ = 0;                // lookups between the last search and the next one
  uint32_t lookups_left_ = kRowsMin;  // lookups until the next search
  bool is_used_ = false;              // true: rows_served_ has not yet decided about the next pause
};

}  // namespace atoll::txn
