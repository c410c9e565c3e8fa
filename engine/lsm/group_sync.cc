#include "lsm/group_sync.h"

#include <utility>

namespace atoll::lsm {

Status GroupSync::wait() {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Round> mine = next_;
  if (std::exchange(mine->has_leader, true)) {
    mine->followers.wait(lock, [&] { return mine->is_over; });
    return mine->outcome;
  }
  leader_.wait(lock, [&] { return !is_running_; });
  next_ = std::make_shared<Round>();
  is_running_ = true;
  lock.unlock();
  Status outcome = sync_();
  lock.lock();
  is_running_ = false;
  mine->outcome = std::move(outcome);
  mine->is_over = true;
  leader_.notify_one();
  mine->followers.notify_all();
  return mine->outcome;
}

}  // namespace atoll::lsm
