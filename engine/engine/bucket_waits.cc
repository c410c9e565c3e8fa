// See bucket_waits.h.
#include "engine/bucket_waits.h"

#include "base/log.h"
#include "bridge/result.h"

namespace atoll::engine {

using std::chrono::steady_clock;

BucketWaits &BucketWaits::of_process() {
  static BucketWaits waits;
  return waits;
}

BucketWaits::Waiter::Waiter(BucketWaits *waits) : waits_(waits), since_(steady_clock::now()) {
  waits_->waiting_.fetch_add(1, std::memory_order_relaxed);
  if (waits_->hooks_.show != nullptr) waits_->hooks_.show(true);
}

BucketWaits::Waiter::~Waiter() {
  if (waits_->hooks_.show != nullptr) waits_->hooks_.show(false);
  waits_->waiting_.fetch_sub(1, std::memory_order_relaxed);
}

void BucketWaits::Waiter::still_waits(uint64_t position, const std::function<std::string()> &why) {
  if (is_counted_ || (!waits_->is_outage() && steady_clock::now() - since_ < kLongWait)) return;
  is_counted_ = true;
  uint64_t before = waits_->position();
  while (before < position && !waits_->position_.compare_exchange_weak(before, position)) {
  }
  waits_->count(since_, why);
}

void BucketWaits::count(steady_clock::time_point since, const std::function<std::string()> &why) {
  const MutexLock lock(mutex_);
  waited_++;
  if (is_outage_) return;
  since_ = since;
  is_outage_ = true;
  log_warning("commits wait for the bucket: " + why());
}

void BucketWaits::look(atoll_store *store) {
  if (is_outage() && bridge::ok(atoll_store_after_commit(store, position(), 1))) end();
}

void BucketWaits::end() {
  const MutexLock lock(mutex_);
  if (!is_outage_) return;
  const auto lasted = std::chrono::duration_cast<std::chrono::seconds>(steady_clock::now() - since_);
  log_info("commits do not wait for the bucket any more: the bucket has caught up after " +
           std::to_string(lasted.count()) + " s, and " + std::to_string(waited_) + " statements have waited");
  waited_ = 0;
  is_outage_ = false;
}

void BucketWaits::forget() {
  const MutexLock lock(mutex_);
  waited_ = 0;
  position_ = 0;
  is_outage_ = false;
}

}  // namespace atoll::engine
