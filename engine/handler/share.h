// What all open handlers of one table share: its layout and its counters. Owned by the server's
// TABLE_SHARE (one per partition for partitioned tables).
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>

#include "base/mutex.h"
#include "handler/layout.h"
#include "handler/alter/online/online_build.h"
#include "handler/statistics/table_statistics.h"

namespace atoll::handler {

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

  // The build that writers must tell of their changes; nullptr: none. Set and taken away while no statement
  // writes the table (but for an ALTER that fails: then it is closed).
  std::shared_ptr<OnlineBuild> online_build() const {
    MutexLock guard(mutex_);
    return online_build_;
  }
  void set_online_build(std::shared_ptr<OnlineBuild> build) {
    MutexLock guard(mutex_);
    online_build_ = std::move(build);
  }

  // AUTO_INCREMENT: the next value nobody has. Loaded once; grows only.
  std::atomic<uint64_t> next_auto_increment{0};  // 0: not loaded
  Mutex auto_increment_mutex;

  // Hidden primary key: the next id.
  std::atomic<uint64_t> next_hidden_id{0};  // 0: not loaded
  Mutex hidden_id_mutex;

  // Rows, for the optimizer. Approximate: rolled-back changes are not taken back.
  std::atomic<int64_t> rows{-1};  // -1: unknown

  // Entries of an index by the sizes of files: `count`'s answer, kept for a second.
  uint64_t index_entries(size_t index, const std::function<uint64_t()> &count);

  // Rows for each step of the primary keys' scale, as the last estimate found it at two places
  // (range_estimate.cc).
  std::atomic<double> key_density{0};  // 0: unknown
  std::atomic<uint32_t> trusted_densities{0};

  // How many there were when records_per_key was sampled.
  std::atomic<int64_t> sampled_rows{-1};  // -1: never
  // Grows with each set_records_per_key().
  std::atomic<uint32_t> statistics_version{0};

  // TableStatistics::records_per_key; empty: unknown.
  std::vector<std::vector<uint64_t>> records_per_key() const {
    MutexLock guard(mutex_);
    return records_per_key_;
  }
  size_t sampled_indexes() const {
    MutexLock guard(mutex_);
    return records_per_key_.size();
  }
  void set_records_per_key(std::vector<std::vector<uint64_t>> values) {
    MutexLock guard(mutex_);
    records_per_key_ = std::move(values);
    statistics_version++;
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const Layout> layout_ ATOLL_GUARDED_BY(mutex_);
  std::shared_ptr<OnlineBuild> online_build_ ATOLL_GUARDED_BY(mutex_);
  std::vector<std::vector<uint64_t>> records_per_key_ ATOLL_GUARDED_BY(mutex_);
  struct IndexEntries {
    uint64_t entries = 0;
    std::chrono::steady_clock::time_point counted_at{};
  };
  std::map<size_t, IndexEntries> index_entries_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atoll::handler
