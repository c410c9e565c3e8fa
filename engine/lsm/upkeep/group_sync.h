// One sync of the WAL for all who wait for one.
#pragma once

#include <functional>
#include <memory>

#include "base/mutex.h"
#include "base/status.h"

namespace atoll::lsm {

// Calls that come while a sync runs share the next one: the first of them leads it, the others follow.
// RocksDB does so for writes that are synced, not for SyncWAL().
//
// Threads: any.
class GroupSync {
 public:
  explicit GroupSync(std::function<Status()> sync) : sync_(std::move(sync)) {}

  // Returns the outcome of a sync that began after this call did.
  // Blocks: for that sync and what is left of the one before it.
  Status wait();

 private:
  struct Round {
    bool has_leader = false;
    bool is_over = false;
    Status outcome;
    Condition followers;
  };

  const std::function<Status()> sync_;
  Mutex mutex_;
  Condition leader_;  // of the next round, which waits for the one that runs
  bool is_running_ ATOLL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Round> next_ ATOLL_GUARDED_BY(mutex_) =
      std::make_shared<Round>();  // its sync has not begun
};

}  // namespace atoll::lsm
