// Memory that the sorts of one statement share.
#pragma once

#include <atomic>
#include <cstdint>

namespace atoll::lsm {

// How much memory all sorts with this budget can use together. Threads: any.
struct SortBudget {
  explicit SortBudget(uint64_t bytes_max_) : bytes_max(bytes_max_) {}

  uint64_t bytes_left() const {
    const uint64_t used = bytes_used.load(std::memory_order_relaxed);
    return used < bytes_max ? bytes_max - used : 0;
  }

  const uint64_t bytes_max;
  std::atomic<uint64_t> bytes_used{0};
  std::atomic<uint64_t> adders{0};  // threads that add rows, of all sorts that have more than one such thread
};

}  // namespace atoll::lsm
