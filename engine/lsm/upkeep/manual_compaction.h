// Runs the compactions that statements ask for, each on a thread of its own. A compaction that waits for the
// bucket cannot be aborted. So when its statement is killed, the statement returns, and the compaction goes
// on in the background.
//
// Threads: any number of threads can call run() at a time; stop() is called after the last call of run() has
// returned.
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
  // One compaction. It ends soon after *cancelled becomes true, except while it waits for the bucket.
  using Work = std::function<rocksdb::Status(std::atomic<bool> *cancelled)>;

  ~ManualCompactions() { stop(); }

  // Runs `work` on a new thread and waits for its end. When the statement of the calling thread is killed,
  // sets the flag of `work` and returns at once; `work` ends in the background. Errors: kInterrupted;
  // kNoMemory: no thread could be started, so `work` did not begin; those of `work`.
  Status run(Work work);
  // Cancels the compactions that still run and waits until they have ended. Blocks: while a compaction waits
  // for the upload backlog. After atoll_store_stop_waiting(), no compaction waits for it.
  void stop();

 private:
  struct Job {
    std::atomic<bool> cancelled{false};  // true: the compaction must end
    bool done = false;                   // true: the compaction has ended, and `status` is set
    rocksdb::Status status;
    std::vector<std::thread> thread;  // has one element
  };
  void forget_done() ATOLL_REQUIRES(mutex_);

  Mutex mutex_;
  Condition changed_;
  std::list<Job> jobs_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atoll::lsm
