#include "lsm/upkeep/group_sync.h"

#include <utility>

#include "base/border/border.h"

namespace atoll::lsm {

Status GroupSync::wait() {
  MutexLock lock(mutex_);
  const std::shared_ptr<Round> mine = next_;
  if (mine->has_leader) {
    mine->followers.wait(lock, [&] { return mine->is_over; });
    return mine->outcome;
  }
  auto following = std::make_shared<Round>();  // allocated now: once this thread leads, it must not throw
  mine->has_leader = true;
  leader_.wait(lock, [this]() ATOLL_REQUIRES(mutex_) { return !is_running_; });
  next_ = std::move(following);
  is_running_ = true;
  lock.unlock();
  Status outcome = guarded(sync_);
  lock.lock();
  is_running_ = false;
  mine->outcome = std::move(outcome);
  mine->is_over = true;
  leader_.notify_one();
  mine->followers.notify_all();
  return mine->outcome;
}

}  // namespace atoll::lsm
