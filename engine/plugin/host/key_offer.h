// Passes keys for the bucket from a SET GLOBAL to the background thread, while the engine waits for the
// bucket. That thread tries to open the engine with the keys, and the statement gets the result.
#pragma once

#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/status.h"

namespace atoll::plugin {

// An empty access key: the secret key belongs to the access key in use.
struct OfferedKeys {
  std::string access_key, secret_key, session_token;
};

// Threads: one offers at a time, another one takes and answers.
class KeyOffer {
 public:
  // Waits until the other thread has answered; returns its answer. Errors: also kInterrupted, when the
  // statement of the calling thread was killed; then the keys are not used, unless the other thread has taken
  // them already.
  Status offer(OfferedKeys keys);
  // The offered keys, once. Costs a mutex.
  std::optional<OfferedKeys> take();
  // Requires: take() has returned keys.
  void answer(const Status &status);

 private:
  Mutex mutex_;
  Condition answered_;
  std::optional<OfferedKeys> keys_ ATOLL_GUARDED_BY(mutex_);
  std::optional<Status> answer_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atoll::plugin
