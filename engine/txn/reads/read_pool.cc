// See read_pool.h.

#include "txn/reads/read_pool.h"

#include <algorithm>

#include "base/threads/start_threads.h"
#include "base/work.h"

namespace atoll::txn {

// One call of run().
struct ReadPool::Job {
  Mutex mutex;
  Condition all_done;
  const std::function<void(size_t)> *piece =
      nullptr;  // set before other threads see the job, valid while pieces are left
  size_t next ATOLL_GUARDED_BY(mutex) = 0;  // number of the first piece that no thread has taken yet
  size_t done ATOLL_GUARDED_BY(mutex) = 0;  // how many calls of `piece` have returned
  size_t count = 0;                         // of all pieces
  Work helped ATOLL_GUARDED_BY(mutex);      // the counted work of the pieces
};

ReadPool::~ReadPool() {
  {
    MutexLock guard(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  for (std::thread &thread : threads_) thread.join();
}

void ReadPool::help(Job *job) {
  Work counted;
  const WorkScope scope(&counted);
  MutexLock guard(job->mutex);
  while (job->next < job->count) {
    const size_t mine = job->next++;
    guard.unlock();
    (*job->piece)(mine);
    guard.lock();
    job->helped.add_all(counted);
    counted.clear();
    if (++job->done == job->count) job->all_done.notify_all();
  }
}

void ReadPool::work() {
  for (;;) {
    std::shared_ptr<Job> job;
    {
      MutexLock guard(mutex_);
      wake_.wait(guard, [this]() ATOLL_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      job = std::move(queue_.front());
      queue_.pop_front();
    }
    help(job.get());
  }
}

void ReadPool::run(size_t count, const std::function<void(size_t)> &piece) {
  auto job = std::make_shared<Job>();
  job->piece = &piece;
  job->count = count;
  {
    MutexLock guard(mutex_);
    const size_t helpers = start_threads(&threads_, kThreads, [this](size_t) { work(); });
    for (size_t i = 1; i < std::min(count, helpers + 1); ++i) queue_.push_back(job);
    wake_.notify_all();
  }
  help(job.get());
  MutexLock guard(job->mutex);
  job->all_done.wait(guard, [&]() ATOLL_REQUIRES(job->mutex) { return job->done == job->count; });
  if (current_work() != nullptr) current_work()->add_all(job->helped);
}

}  // namespace atoll::txn
