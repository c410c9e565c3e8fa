// Lets threads that wait for a sync of the WAL share one sync.
#pragma once

#include <functional>
#include <memory>

#include "base/mutex.h"
#include "base/status.h"

namespace atoll::lsm {

// Threads that call wait() while a sync runs share the next sync. The first of them, the leader, runs it; the
// others, the followers, wait for its outcome. RocksDB groups synced writes in the same way, but not calls of
// SyncWAL().
//
// Threads: any.
class GroupSync {
 public:
  explicit GroupSync(std::function<Status()> sync) : sync_(std::move(sync)) {}

  // Returns the outcome of a sync that began after this call did.
  // Blocks: until the sync that runs now has ended, if there is one, and then for the sync of this call.
  Status wait();

 private:
  // One sync and the threads that share it. All fields are guarded by mutex_.
  struct Round {
    bool has_leader = false;  // true: a thread has called wait() and will run the sync
    bool is_over = false;     // true: the sync has ended, and `outcome` is set
    Status outcome;
    Condition followers;  // the followers wait here until is_over
  };

  const std::function<Status()> sync_;
  Mutex mutex_;
  Condition leader_;  // the leader of the next round waits here for the end of the running sync
  bool is_running_ ATOLL_GUARDED_BY(mutex_) = false;  // true: a leader runs a sync
  std::shared_ptr<Round> next_ ATOLL_GUARDED_BY(mutex_) =
      std::make_shared<Round>();  // the round whose sync has not begun yet; new callers join it
};

}  // namespace atoll::lsm
