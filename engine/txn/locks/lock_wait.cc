// How a request waits for a row lock or, if it is an insert, for the release of ranges. The request lives on
// the stack of the waiting thread. The thread that releases a lock grants the request and wakes its owner.

#include <algorithm>
#include <thread>

#include "base/border/assert.h"
#include "base/border/border.h"
#include "txn/locks/lock_table_impl.h"

namespace atoll::txn {

namespace {

// Ten years. With a longer timeout, the computation of the deadline could overflow.
constexpr uint64_t kTimeoutMaxMs = 10ull * 365 * 24 * 3600 * 1000;

// Keeps lock owners from being destroyed while callbacks use them.
class PinnedOwners {
 public:
  PinnedOwners() = default;
  ~PinnedOwners() {
    // Another thread can destroy an owner as soon as the owner's count is 0.
    for (LockOwner::State *owner : all_) {
      const uint32_t before = owner->pins.fetch_sub(1);
      ATOLL_ASSERT(before > 0);
    }
  }
  PinnedOwners(const PinnedOwners &) = delete;
  PinnedOwners &operator=(const PinnedOwners &) = delete;

  void pin(LockOwner::State *owner) {
    all_.push_back(owner);
    owner->pins.fetch_add(1);
  }
  const std::vector<LockOwner::State *> &all() const { return all_; }

 private:
  std::vector<LockOwner::State *> all_;
};

}  // namespace

void wake(LockOwner::State *owner) {
  // Notify with the mutex held, because another thread can destroy the owner right after the mutex is
  // released.
  MutexLock guard(owner->wake_mutex);
  owner->woken = true;
  owner->wake.notify_one();
}

void await_no_pins(LockOwner::State *owner) {
  while (owner->pins.load() != 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

LockOwner::~LockOwner() {
  await_no_pins(state_.get());
  ATOLL_ASSERT(held_in_all(*state_) == 0 && state_->ranges.empty());  // LOCKTAB-2
}

// Queues `request` and breaks the cycles that it closes. Returns true if it has queued `request`: then the
// caller waits, unless *status is an error, and calls end_wait(). Returns false if it has not: the lock is
// granted (for an insert: no range blocks it any more), or the owner was killed and *status is kInterrupted.
bool LockTable::Impl::start_wait(Request *request, Status *status) {
  LockOwner::State *owner = request->owner;
  MutexLock graph(graph_mutex);
  {
    MutexLock guard(owner->wake_mutex);
    owner->woken = false;
    if (owner->killed) {
      *status = Status(Code::kInterrupted, "the wait for a lock was interrupted");
      return false;
    }
  }
  if (request->is_insert) {
    MutexLock guard(mutex_of(*request));
    if (pass_or_enqueue(request)) return false;
  } else {
    request->spare = std::make_unique<Grant>();
    if (grant_after_look(request, true)) return false;
  }
  ATOLL_ASSERT(owner->waiting == nullptr);
  owner->waiting = request;
  waits.fetch_add(1, std::memory_order_relaxed);
  *status = guarded([&]() ATOLL_UNCHECKED_THREADS {  // graph_mutex is held
    waiting_since.insert(request->since);
    (void)break_cycles(request);  // end_wait() tells whether the request itself was the victim
    return Status::Ok();
  });
  return true;
}

// Takes `request` out of its queue if it is still there. Returns how the wait ended. kWaiting: by a timeout,
// a kill or an error, so the lock is not granted.
RequestState LockTable::Impl::end_wait(Request *request) {
  MutexLock graph(graph_mutex);
  ATOLL_ASSERT(request->owner->waiting == request);
  request->owner->waiting = nullptr;
  if (const auto it = waiting_since.find(request->since); it != waiting_since.end()) waiting_since.erase(it);
  // This also waits for a thread that is waking this owner and still uses its State.
  MutexLock guard(mutex_of(*request));
  if (request->state == RequestState::kWaiting) {
    dequeue(request);
    if (Lock *lock = request->lock; lock != nullptr) {
      grant_waiters(lock);
      remove_if_unused(&shard_of(request->hash), lock);
    }
  }
  return request->state;
}

RequestState LockTable::Impl::state_of(const Request &request) {
  MutexLock guard(mutex_of(request));
  return request.state;
}

void LockTable::Impl::report_blockers(const Request &request, std::vector<uint64_t> *reported) {
  if (!before_wait) return;
  PinnedOwners pinned;
  {
    MutexLock guard(mutex_of(request));
    if (request.state != RequestState::kWaiting) return;
    each_blocker(request, [&](LockOwner::State *blocker) {
      const uint64_t id = blocker->transaction_id;
      if (std::find(reported->begin(), reported->end(), id) != reported->end()) return;
      reported->push_back(id);
      pinned.pin(blocker);
    });
  }
  for (LockOwner::State *blocker : pinned.all())
    if (void *user = blocker->user.load(); user != nullptr) before_wait(request.owner->self, user);
}

Status LockTable::Impl::wait_for(Request *waiting, uint64_t timeout_ms) {
  Request &request = *waiting;
  LockOwner::State *owner = request.owner;
  request.since = Clock::now();
  const auto deadline = request.since + std::chrono::milliseconds(std::min(timeout_ms, kTimeoutMaxMs));
  Status status;
  if (!start_wait(&request, &status)) return status;

  std::vector<uint64_t> reported;
  bool killed = false;
  bool timed_out = false;
  while (status.ok() && !timed_out && !killed && state_of(request) == RequestState::kWaiting) {
    status = guarded([&] { return report_blockers(request, &reported), Status::Ok(); });
    if (!status.ok()) break;
    MutexLock guard(owner->wake_mutex);
    timed_out = !owner->wake.wait_until(
        guard, deadline, [&]() ATOLL_REQUIRES(owner->wake_mutex) { return owner->woken || owner->killed; });
    killed = owner->killed;
    owner->woken = false;
  }

  const RequestState end = end_wait(&request);
  const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - request.since);
  wait_us.fetch_add(static_cast<uint64_t>(waited.count()), std::memory_order_relaxed);
  switch (end) {
    case RequestState::kGranted:
      if (request.lock != nullptr && !request.upgrade) add_held(owner, request.grant);
      return Status::Ok();
    case RequestState::kDeadlock:
      return Status(Code::kDeadlock, "deadlock found: this transaction is the victim");
    case RequestState::kWaiting:
      if (!status.ok()) return status;
      if (killed) return Status(Code::kInterrupted, "the wait for a lock was interrupted");
      return Status(Code::kLockTimeout, "lock wait timeout exceeded");
  }
  return Status(Code::kBug, "unknown end of a lock wait");
}

}  // namespace atoll::txn
