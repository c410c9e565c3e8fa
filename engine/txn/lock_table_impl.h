// The inside of the lock table: shared by lock_table.cc (row locks and their queues), range_lock.cc (range
// locks), lock_wait.cc (waiting) and deadlock.cc (the graph).
//
// Mutexes, in the order they may be taken: graph mutex, one shard's or slot's mutex, one owner's wake mutex.
// Invariants
//   I1  An owner starts to wait, and ends its wait, only under the graph mutex. So while somebody
//       searches for cycles the set of waiters only shrinks, and an owner whose `waiting` is set lives.
//   I2  A Grant or a Request in a lock's lists belongs to a living owner; both lists change only under
//       the shard mutex.
//   I3  A lock is in the table if and only if it has a holder or a waiter.
//   I4  A slot's holds and queue change only under its mutex; its `count` is raised before a range is looked
//       for obstacles and falls after the last one is gone.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "txn/key_ranges.h"
#include "txn/lock_table.h"

namespace atoll::txn {

using Clock = std::chrono::steady_clock;

struct Lock;
struct RangeSlot;

// One owner's hold on one lock. The first holder's grant is stored inside the lock.
struct Grant {
  LockOwner::State *owner = nullptr;  // nullptr: the embedded grant is free
  Lock *lock = nullptr;
  Grant *next = nullptr;  // further holders of a shared lock
  uint32_t index = 0;     // place in owner->held; used by the owner's thread only
  uint16_t taken = 0;     // lock() calls not taken back; stays at the maximum once there
  LockMode mode = LockMode::kShared;
};

enum class RequestState : uint8_t { kWaiting, kGranted, kDeadlock };

// A waiting lock() or lock_insert() call; lives on the waiter's stack.
struct Request {
  LockOwner::State *owner = nullptr;
  LockKey key;
  Lock *lock = nullptr;       // of lock(), while queued
  RangeSlot *slot = nullptr;  // of lock_insert()
  Request *next = nullptr;    // towards the end of the queue
  Request *prev = nullptr;
  Grant *grant = nullptr;  // the result, or the shared grant that is upgraded
  Clock::time_point since;
  uint32_t hash = 0;
  LockMode mode = LockMode::kShared;
  bool upgrade = false;
  RequestState state = RequestState::kWaiting;  // guarded by the shard mutex
  // Work of the search for cycles, guarded by the graph mutex.
  uint64_t visited_epoch = 0;
  uint64_t expanded_epoch = 0;
  Request *reached_from = nullptr;
};

// A locked (family, key). The key's bytes follow the struct.
struct Lock {
  Lock *bucket_next = nullptr;
  uint32_t hash = 0;
  uint32_t family_id = 0;
  uint32_t key_size = 0;
  Request *queue_head = nullptr;
  Grant first;  // first.next: the other holders

  char *key_bytes() { return reinterpret_cast<char *>(this + 1); }
  std::string_view key() const { return {reinterpret_cast<const char *>(this + 1), key_size}; }
  bool has_holder() const { return first.owner != nullptr || first.next != nullptr; }
};

struct alignas(64) Shard {
  mutable std::mutex mutex;
  std::vector<Lock *> buckets;  // a power of two, or empty
  size_t count = 0;
};

// The ranges of one owner in one index.
struct RangeHold {
  LockOwner::State *owner = nullptr;
  RangeSlot *slot = nullptr;
  uint32_t family_id = 0;
  std::string index_start;
  KeyRanges ranges;
};

// The indexes with the same hash; see Impl::slot_of().
struct alignas(64) RangeSlot {
  std::atomic<uint32_t> count{0};  // holds, and those about to be made
  mutable std::mutex mutex;
  std::vector<std::unique_ptr<RangeHold>> holds;
  Request *queue_head = nullptr;  // lock_insert() calls, in no order that matters
};

struct LockOwner::State {
  LockOwner *self = nullptr;
  uint64_t transaction_id = 0;
  std::atomic<void *> user{nullptr};

  // The owner's thread only. Empty places are left by unlock() and reused from the end.
  std::vector<Grant *> held;
  size_t immune = 0;  // held[0 .. immune) may not be released by unlock()
  std::atomic<size_t> held_count{0};

  std::vector<RangeHold *> ranges;  // the owner's thread only

  std::mutex wake_mutex;
  std::condition_variable wake;
  bool woken = false;   // guarded by wake_mutex: look at the request again
  bool killed = false;  // guarded by wake_mutex

  std::atomic<uint32_t> pins{0};  // callbacks that may use `user`; see LockTable::set_before_wait
  Request *waiting = nullptr;     // guarded by the graph mutex
};

struct LockTable::Impl {
  static constexpr size_t kShards = 256;
  static constexpr size_t kSlots = 256;

  mutable std::array<Shard, kShards> shards;
  mutable std::array<RangeSlot, kSlots> slots;
  mutable std::mutex graph_mutex;
  uint64_t epoch = 0;              // guarded by graph_mutex
  std::string last_deadlock_text;  // guarded by graph_mutex
  BeforeWait before_wait;
  std::atomic<uint64_t> deadlocks{0}, waits{0}, wait_us{0};

  Shard &shard_of(uint32_t hash) const { return shards[hash % kShards]; }

  RangeSlot &slot_of(const LockKey &key) const;
  std::mutex &mutex_of(const Request &request) const {
    return request.slot != nullptr ? request.slot->mutex : shard_of(request.hash).mutex;
  }

  // lock_table.cc and range_lock.cc. Require the mutex of the request. True: granted; false: queued.
  bool grant_or_enqueue(Request *request);
  bool pass_or_enqueue(Request *request);
  void release_ranges(LockOwner::State *owner);

  // lock_wait.cc. Waits for a request that could not be granted at once.
  Status wait_for(Request *request, uint64_t timeout_ms);
  bool start_wait(Request *request, Status *status);
  RequestState end_wait(Request *request);
  RequestState state_of(const Request &request);
  void report_blockers(const Request &request, std::vector<uint64_t> *reported);

  // deadlock.cc. Requires: the graph mutex; `request` is queued. Breaks every cycle through `request`.
  // Returns true if `request` itself is the victim (it has been taken out of its queue).
  bool break_cycles(Request *request);
  Request *find_cycle(Request *start);
  void expand(Request *request, std::vector<Request *> *stack);
  bool fail_victim(Request *victim);
  std::string describe_cycle(Request *start, Request *last, Request *victim) const;
};

inline bool compatible(LockMode a, LockMode b) { return a == LockMode::kShared && b == LockMode::kShared; }

// Calls visit(owner) for each other owner with a range that has `key` in it. Requires: the slot's mutex.
template <typename Visit>
void each_range_holder(const RangeSlot &slot, const LockOwner::State *owner, const LockKey &key,
                       const Visit &visit) {
  for (const auto &hold : slot.holds) {
    if (hold->owner != owner && hold->family_id == key.family_id && hold->ranges.contains(key.key)) {
      visit(hold->owner);
    }
  }
}

// Calls visit(owner) for each owner that `request` has to wait for: holders, then those in front of it.
// Requires: the request's mutex. The last one visited of the queue is the front.
template <typename Visit>
void each_blocker(const Request &request, const Visit &visit) {
  if (request.slot != nullptr) return each_range_holder(*request.slot, request.owner, request.key, visit);
  for (Grant *g = &request.lock->first; g != nullptr; g = g->next) {
    if (g->owner != nullptr && g->owner != request.owner && !compatible(g->mode, request.mode)) {
      visit(g->owner);
    }
  }
  for (Request *r = request.prev; r != nullptr; r = r->prev) {
    if (!compatible(r->mode, request.mode)) visit(r->owner);
  }
}

// lock_table.cc. All require the mutex of the lock's shard.
void dequeue(Request *request);  // or of the slot
void grant_waiters(Lock *lock);  // grants from the front what can be granted, and wakes
void remove_if_unused(Shard *shard, Lock *lock);
void add_held(LockOwner::State *owner, Grant *grant);

void wake(LockOwner::State *owner);  // any mutex but an owner's
void await_no_pins(LockOwner::State *owner);

std::string to_hex(std::string_view bytes);

}  // namespace atoll::txn
