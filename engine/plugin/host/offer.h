// Passes a request from a statement to the background thread, which carries it out, and its result back. For
// what only that thread may do: open and close the engine.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "base/interrupt.h"
#include "base/mutex.h"
#include "base/status.h"

namespace atoll::plugin {

// Threads: one offers at a time, another one takes and answers.
template <typename Request>
class Offer {
 public:
  // Waits until the other thread has answered; returns its answer. Errors: also kInterrupted, when the
  // statement of the calling thread was killed; then the request is not carried out, unless the other thread
  // has taken it already.
  Status make(Request request) {
    MutexLock lock(mutex_);
    request_ = std::move(request);
    answer_.reset();
    while (!answered_.wait_for(lock, kKillInterval,
                               [this]() ATOLL_REQUIRES(mutex_) { return answer_.has_value(); })) {
      if (!is_interrupted()) continue;
      request_.reset();
      return Status(Code::kInterrupted, "the statement was killed");
    }
    return *answer_;
  }

  // The request, once. Costs a mutex.
  std::optional<Request> take() {
    const MutexLock lock(mutex_);
    return std::exchange(request_, std::nullopt);
  }

  // Requires: take() has returned a request.
  void answer(const Status &status) {
    const MutexLock lock(mutex_);
    answer_ = status;
    answered_.notify_all();
  }

 private:
  static constexpr std::chrono::milliseconds kKillInterval{200};  // between two checks for KILL

  Mutex mutex_;
  Condition answered_;
  std::optional<Request> request_ ATOLL_GUARDED_BY(mutex_);
  std::optional<Status> answer_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atoll::plugin
