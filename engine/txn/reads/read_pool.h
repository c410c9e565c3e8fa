// A few threads that help with large MultiGets. With a bucket behind, the time of a read is waiting, and
// RocksDB waits for one file after the other.
//
// THREADS: run() from any thread; the threads start with the first run(); the next run() tries again to start
// a thread that the process did not get.
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

  // Calls piece(0) to piece(count - 1), spread over the caller and the pool's threads. Returns when all
  // have returned. The caller alone gets them done if all threads are busy.
  void run(size_t count, const std::function<void(size_t)> &piece);

 private:
  static constexpr size_t kThreads = 6;
  struct Job;

  static void help(Job *job);
  void work();

  Mutex mutex_;
  Condition wake_;
  std::deque<std::shared_ptr<Job>> queue_ ATOLL_GUARDED_BY(mutex_);  // one entry per helper wanted
  std::vector<std::thread> threads_ ATOLL_GUARDED_BY(mutex_);
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
};

}  // namespace atoll::txn
