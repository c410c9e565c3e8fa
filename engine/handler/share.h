// What all open handlers of one table share: its layout and its counters. Owned by the server's
// TABLE_SHARE (one per partition for partitioned tables).
#pragma once

#include <atomic>
#include <memory>

#include "base/mutex.h"
#include "handler/foreign/foreign_plan.h"
#include "handler/layout.h"
#include "handler/statistics/open_shares.h"
#include "table/online/online_build.h"
#include "table/statistics/range_estimate.h"
#include "table/statistics/sampling.h"

namespace atoll::handler {

// Made when the first handler of the table is opened; the server destroys it with the TABLE_SHARE.
// Threads: any.
class Share final : public Handler_share {
 public:
  explicit Share(std::shared_ptr<const Layout> layout) : layout_(std::move(layout)) { register_share(this); }
  ~Share() override;

  std::shared_ptr<const Layout> layout() const {
    MutexLock guard(mutex_);
    return layout_;
  }
  void set_layout(std::shared_ptr<const Layout> layout) {
    MutexLock guard(mutex_);
    layout_ = std::move(layout);
  }

  // The online build for which writers must log their changes; nullptr: there is none. It is set and removed
  // while no statement writes the table. Only after a failed ALTER may it be removed while others write; the
  // build is closed then and ignores their changes.
  std::shared_ptr<table::OnlineBuild> online_build() const {
    MutexLock guard(mutex_);
    return online_build_;
  }
  void set_online_build(std::shared_ptr<table::OnlineBuild> build) {
    MutexLock guard(mutex_);
    online_build_ = std::move(build);
  }

  // *out: the constraints FOREIGN KEY of the table, for records of `layout`. Made anew when a definition in
  // the catalog has changed. Errors: as make_foreign_plan().
  Status foreign_plan(const std::shared_ptr<const Layout> &layout, std::shared_ptr<const ForeignPlan> *out);

  // AUTO_INCREMENT: the next value to give out. It is loaded once, and only TRUNCATE and ALTER can make it
  // smaller.
  std::atomic<uint64_t> next_auto_increment{0};  // 0: not loaded
  Mutex auto_increment_mutex;

  // Takes the next hidden id of a table without primary key. While the share lives, no id is given out twice;
  // gaps are harmless. Errors: as a read of the highest id in the table, which is done once.
  Status take_hidden_id(const Layout &layout, uint64_t *id);
  // Begins with id 1 again. Requires: the table is empty.
  void restart_hidden_ids() { next_hidden_id_ = 1; }

  // The number of rows, for the optimizer, with those of open transactions. Approximate.
  std::atomic<int64_t> rows{-1};  // -1: unknown

  // The numbers of rows and of AUTO_INCREMENT are loaded again: a reader shows another state of the table.
  void forget_numbers() {
    next_auto_increment = 0;
    rows = -1;
  }

  table::EstimateCache estimates;

  // The number of rows when records_per_key was sampled.
  std::atomic<int64_t> sampled_rows{-1};  // -1: never sampled
  // Grows with each set_sample(), so that a handler notices that its own copy of the statistics is outdated.
  std::atomic<uint32_t> statistics_version{0};

  // From the sample: how many rows on average have the same value in an index
  // (TableStatistics::records_per_key); empty: unknown.
  std::vector<std::vector<uint64_t>> records_per_key() const {
    MutexLock guard(mutex_);
    return records_per_key_;
  }
  size_t sampled_indexes() const {
    MutexLock guard(mutex_);
    return records_per_key_.size();
  }
  // Stores the result of a sample, except for the number of rows, `rows`.
  void set_sample(const table::TableStatistics &statistics) {
    MutexLock guard(mutex_);
    records_per_key_ = statistics.records_per_key;
    sampled_rows = statistics.sampled_rows;
    statistics_version++;
  }

 private:
  std::atomic<uint64_t> next_hidden_id_{0};  // 0: not loaded
  Mutex hidden_id_mutex_;
  mutable Mutex mutex_;
  std::shared_ptr<const Layout> layout_ ATOLL_GUARDED_BY(mutex_);
  std::shared_ptr<table::OnlineBuild> online_build_ ATOLL_GUARDED_BY(mutex_);
  std::shared_ptr<const ForeignPlan> foreign_plan_ ATOLL_GUARDED_BY(mutex_);
  std::vector<std::vector<uint64_t>> records_per_key_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atoll::handler
