// Compactions that a statement asks for, each on a thread of its own: RocksDB cannot be told to return from
// one that waits for the bucket, so a statement that is killed leaves it behind.
//
// Threads: `run` may be called by several; `stop` once nobody calls it any more.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <functional>
#include <list>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"

namespace atoll::lsm {

class ManualCompactions {
 public:
  // A compaction; ends soon after the flag becomes true, unless it waits for the bucket.
  using Work = std::function<rocksdb::Status(std::atomic<bool> *cancelled)>;

  ~ManualCompactions() { stop(); }

  // Runs `work` to its end. When the calling thread is interrupted, the work is told so and goes on without
  // it. Errors: kInterrupted; kNoMemory: there is no thread for it, and it was not begun; those of the work.
  Status run(Work work);
  // Cancels the compactions that still run and waits for their ends. Blocks: until the bucket takes table
  // files, unless atoll_store_stop_waiting() was called.
  void stop();

 private:
  struct Job {
    std::atomic<bool> cancelled{false};
    bool done = false;
    rocksdb::Status status;
    std::vector<std::thread> thread;  // one
  };
  void forget_done() ATOLL_REQUIRES(mutex_);

  Mutex mutex_;
  Condition changed_;
  std::list<Job> jobs_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atoll::lsm
