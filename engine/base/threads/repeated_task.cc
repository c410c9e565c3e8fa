#include "base/threads/repeated_task.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/border/border.h"
#include "base/interrupt.h"

namespace atoll {
namespace {

constexpr auto kAfterFailure = std::chrono::seconds(5);

}  // namespace

RepeatedTask::RepeatedTask(const char *thread_name, std::chrono::milliseconds rhythm,
                           std::function<void()> turn)
    : turn_(std::move(turn)),
      rhythm_(rhythm),
      next_(rhythm == kNoRhythm ? Clock::time_point::max() : Clock::now() + rhythm),
      thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), thread_name);
}

void RepeatedTask::ask(std::chrono::milliseconds delay) {
  const MutexLock lock(mutex_);
  next_ = std::min(next_, Clock::now() + delay);
  changed_.notify_all();
}

void RepeatedTask::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool RepeatedTask::rest(std::chrono::milliseconds time) {
  MutexLock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return stopping_.load(); });
}

void RepeatedTask::run() {
  const InterruptScope interrupt(&stopping_);
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (Clock::now() < next_) {
      (void)changed_.wait_until(lock, next_);
      continue;
    }
    next_ = Clock::time_point::max();
    lock.unlock();
    const Status status = guarded([this] { return turn_(), Status::Ok(); });
    lock.lock();
    if (rhythm_ != kNoRhythm) next_ = std::min(next_, Clock::now() + rhythm_);
    if (!status.ok()) next_ = std::min(next_, Clock::now() + kAfterFailure);
  }
}

}  // namespace atoll
