// One sync of the WAL for all who wait for one.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

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
    std::condition_variable followers;
  };

  const std::function<Status()> sync_;
  std::mutex mutex_;
  std::condition_variable leader_;  // of the next round, which waits for the one that runs
  bool is_running_ = false;
  std::shared_ptr<Round> next_ = std::make_shared<Round>();  // its sync has not begun
};

}  // namespace atoll::lsm
