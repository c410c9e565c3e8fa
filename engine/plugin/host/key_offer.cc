// See key_offer.h.
#include "plugin/host/key_offer.h"

#include <chrono>
#include <utility>

#include "base/interrupt.h"

namespace atoll::plugin {
namespace {

constexpr std::chrono::milliseconds kKillInterval(200);  // between two checks for KILL

}  // namespace

Status KeyOffer::offer(OfferedKeys keys) {
  MutexLock lock(mutex_);
  keys_ = std::move(keys);
  answer_.reset();
  while (!answered_.wait_for(lock, kKillInterval,
                             [this]() ATOLL_REQUIRES(mutex_) { return answer_.has_value(); })) {
    if (!is_interrupted()) continue;
    keys_.reset();
    return Status(Code::kInterrupted, "the statement was killed");
  }
  return *answer_;
}

std::optional<OfferedKeys> KeyOffer::take() {
  const MutexLock lock(mutex_);
  return std::exchange(keys_, std::nullopt);
}

void KeyOffer::answer(const Status &status) {
  const MutexLock lock(mutex_);
  answer_ = status;
  answered_.notify_all();
}

}  // namespace atoll::plugin
