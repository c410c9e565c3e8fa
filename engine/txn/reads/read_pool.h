// A few threads that help with large MultiGets. A read from the bucket spends its time on waiting, and
// RocksDB waits for one file after the other. With several threads, several files are waited for at the same
// time.
//
// THREADS: any thread can call run(). The first run() starts the pool's threads. If the process could not get
// a thread, the next run() tries again to start it.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/namespace.h"

namespace atoll::txn {

class ReadPool {
 public:
  ReadPool() = default;
  ~ReadPool();
  ReadPool(const ReadPool &) = delete;
  ReadPool &operator=(const ReadPool &) = delete;

  // Calls piece(0) to piece(count - 1) on the calling thread and the pool's threads. Returns when all calls
  // have returned. If all threads are busy, the calling thread makes all calls itself.
  void run(size_t count, const std::function<void(size_t)> &piece);

 private:
  static constexpr size_t kThreads = 6;
  struct Job;

  static void help(Job *job);
  void work();

  Mutex mutex_;
  Condition wake_;
  std::deque<std::shared_ptr<Job>> queue_ ATOLL_GUARDED_BY(mutex_);  // a job is in it once for each thread
                                                                     // that is to help with it
  std::vector<std::thread> threads_ ATOLL_GUARDED_BY(mutex_);
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
};

}  // namespace atoll::txn
