// Counts the blocks that reads of one table use, which ANALYZE FORMAT=JSON shows as r_engine_stats. Each call
// of the handler that reads makes a CountedPages. Without ANALYZE this costs only the test of a pointer.
#pragma once

#include "handler/server.h"

#include "base/work.h"

namespace atoll::handler {

class CountedPages {
 public:
  explicit CountedPages(ha_handler_stats *statistics)
      : statistics_(statistics != nullptr && current_work() != nullptr ? statistics : nullptr) {
    if (statistics_ == nullptr) return;
    cached_ = current_work()->count(WorkKind::kBlocksCached);
    read_ = current_work()->count(WorkKind::kBlocksRead);
  }
  ~CountedPages() {
    if (statistics_ == nullptr) return;
    const uint64_t read = current_work()->count(WorkKind::kBlocksRead) - read_;
    statistics_->pages_read_count += read;
    statistics_->pages_accessed += read + current_work()->count(WorkKind::kBlocksCached) - cached_;
  }
  CountedPages(const CountedPages &) = delete;
  CountedPages &operator=(const CountedPages &) = delete;

 private:
  ha_handler_stats *const statistics_;
  uint64_t cached_ = 0, read_ = 0;
};

}  // namespace atoll::handler
