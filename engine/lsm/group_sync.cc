#include "lsm/group_sync.h"

namespace atoll::lsm {

Status GroupSync::wait() {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Round> mine = next_;
  round_is_over_.wait(lock, [&] { return mine->is_over || !is_running_; });
  if (mine->is_over) return mine->outcome;
  next_ = std::make_shared<Round>();
  is_running_ = true;
  lock.unlock();
  Status outcome = sync_();
  lock.lock();
  is_running_ = false;
  mine->outcome = std::move(outcome);
  mine->is_over = true;
  round_is_over_.notify_all();
  return mine->outcome;
}

}  // namespace atoll::lsm
