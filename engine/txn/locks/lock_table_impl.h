// The inside of the lock table: shared by lock_table.cc (row locks and their queues), range_lock.cc (range
// locks), row_range.cc (row ranges), lock_wait.cc (waiting) and deadlock.cc (the graph).
//
// Mutexes, in the order they may be taken: graph mutex, one slot's mutex, one shard's, one owner's wake
// mutex. Invariants
//   LOCKTAB-1  An owner starts and ends its wait only with the graph mutex held. A search for cycles holds it
//              too, so that every owner whose `waiting` is set exists until the search ends.
//   LOCKTAB-2  A Grant or a Request in a lock's lists belongs to a living owner; both lists change only under
//              the shard mutex.
//   LOCKTAB-3  A lock is in the table if and only if it has a holder or a waiter.
//   LOCKTAB-4  A slot's holds and queue change only under its mutex. A thread raises the slot's `count`
//              before it searches the keys of a new range for writes of others, and lowers it after the range
//              is gone.
//   LOCKTAB-5  Before a thread grants a row lock, or puts a request into the lock's queue, it does one of two
//              things. Either it sees, under the shard's mutex, that the slot has no row ranges. Or it holds
//              the slot's mutex too and has looked at the row ranges. A row lock is exchanged only while its
//              queue is empty. Therefore no row range blocks a request in a lock's queue, and the request can
//              be granted without another look. A lock() of a row that its owner has locked already, in a
//              mode that suffices, needs neither.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "txn/locks/lock_table.h"

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
  Lock *lock = nullptr;       // of lock(), while queued there
  RangeSlot *slot = nullptr;  // of lock_insert(), and of lock() while it waits for row ranges
  bool is_insert = false;
  Request *next = nullptr;  // towards the end of the queue
  Request *prev = nullptr;
  Grant *grant = nullptr;        // the result, or the shared grant that is upgraded
  std::unique_ptr<Grant> spare;  // made before the wait: whoever releases a lock must not need memory
  Clock::time_point since;
  uint32_t hash = 0;
  LockMode mode = LockMode::kShared;
  bool upgrade = false;
  RequestState state = RequestState::kWaiting;  // guarded by Impl::mutex_of() of the request
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

// The analysis of threads (base/mutex.h) cannot follow the way from a request to the mutex of its shard or
// slot (Impl::mutex_of). What these mutexes guard stands in comments.
struct alignas(64) Shard {
  mutable Mutex mutex;
  std::vector<Lock *> buckets;  // a power of two, or empty
  size_t count = 0;
};

// The ranges of one owner in one index. For a moment, or after an exception, a hold can have none.
struct RangeHold {
  LockOwner::State *owner = nullptr;
  RangeSlot *slot = nullptr;
  uint32_t family_id = 0;
  std::string index_start;
  KeyRanges ranges;
  std::array<KeyRanges, 2> rows;  // row ranges, by LockMode

  bool has_row_ranges() const { return rows[0].size() + rows[1].size() > 0; }
};

// The indexes with the same hash; see Impl::slot_of().
struct alignas(64) RangeSlot {
  std::atomic<uint32_t> count{0};  // of holds, including those that a thread is about to make
  // Number of holds with row ranges. A thread raises it under the slot's mutex, before it removes the
  // exchanged row locks under the mutexes of their shards.
  std::atomic<uint32_t> row_ranges{0};
  mutable Mutex mutex;
  std::vector<std::unique_ptr<RangeHold>> holds;
  Request *queue_head = nullptr;  // in no order that matters
};

struct LockOwner::State {
  LockOwner *self = nullptr;
  uint64_t transaction_id = 0;
  std::atomic<void *> user{nullptr};

  // Used by the owner's thread only. unlock() leaves empty places, which are reused from the end.
  std::vector<Grant *> held;
  size_t immune = 0;  // held[0 .. immune) may not be released by unlock()
  std::atomic<size_t> held_count{0};
  std::atomic<size_t> exchanged{0};  // row locks that have become row ranges

  std::vector<RangeHold *> ranges;  // the owner's thread only

  Mutex wake_mutex;
  Condition wake;
  bool woken ATOLL_GUARDED_BY(wake_mutex) = false;  // look at the request again
  bool killed ATOLL_GUARDED_BY(wake_mutex) = false;

  std::atomic<uint32_t> pins{0};  // callbacks that may use `user`; see LockTable::set_before_wait
  Request *waiting = nullptr;     // guarded by the graph mutex
};

struct LockTable::Impl {
  static constexpr size_t kShards = 256;
  static constexpr size_t kSlots = 256;

  mutable std::array<Shard, kShards> shards;
  mutable std::array<RangeSlot, kSlots> slots;
  mutable Mutex graph_mutex;
  uint64_t epoch ATOLL_GUARDED_BY(graph_mutex) = 0;
  Deadlock last_deadlock ATOLL_GUARDED_BY(graph_mutex);
  std::multiset<Clock::time_point> waiting_since ATOLL_GUARDED_BY(graph_mutex);  // of all that wait
  BeforeWait before_wait;
  DescribeUser describe_user;
  VictimPreference victim_preference;
  std::atomic<uint64_t> deadlocks{0}, waits{0}, wait_us{0};
  std::atomic<size_t> row_locks_max{0};  // 0: no limit
  std::atomic<size_t> row_ranges_max{KeyRanges::kRangesMax};

  Shard &shard_of(uint32_t hash) const { return shards[hash % kShards]; }

  RangeSlot &slot_of(const LockKey &key) const;
  Mutex &mutex_of(const Request &request) const {
    return request.slot != nullptr ? request.slot->mutex : shard_of(request.hash).mutex;
  }

  // lock_table.cc. Requires: the shard's mutex, and LOCKTAB-5. True: granted.
  bool grant_now(Shard *shard, const Request &request);
  Status lock_slowly(Request *request, const LockWait &wait, bool *waited);
  void pin_exchanged(const Request &request);
  // Takes the mutexes that LOCKTAB-5 asks for. True: granted; false: not, or queued.
  bool grant_after_look(Request *request, bool enqueue_it);
  // range_lock.cc. Requires: the slot's mutex. True: nobody is in the way; false: queued.
  bool pass_or_enqueue(Request *request);
  // row_range.cc
  void bound_row_locks(LockOwner::State *owner);
  void exchange_row_locks(LockOwner::State *owner);
  size_t exchange_some(LockOwner::State *owner, const std::vector<Grant *> &sorted, size_t from);
  void release_ranges(LockOwner::State *owner);

  // lock_wait.cc. Waits for a request that could not be granted at once. No exception may leave a wait:
  // others have pointers to the request.
  Status wait_for(Request *request, uint64_t timeout_ms);
  bool start_wait(Request *request, Status *status);
  RequestState end_wait(Request *request);
  RequestState state_of(const Request &request);
  void report_blockers(const Request &request, std::vector<uint64_t> *reported);

  // deadlock.cc. `request` is queued. Breaks every cycle through `request`.
  // Returns true if `request` itself is the victim (it has been taken out of its queue).
  bool break_cycles(Request *request) ATOLL_REQUIRES(graph_mutex);
  Request *find_cycle(Request *start) ATOLL_REQUIRES(graph_mutex);
  void expand(Request *request, std::vector<Request *> *stack) ATOLL_REQUIRES(graph_mutex);
  bool is_better_victim(const LockOwner::State &owner, const LockOwner::State &than) const
      ATOLL_REQUIRES(graph_mutex);
  bool fail_victim(Request *victim) ATOLL_REQUIRES(graph_mutex);
  Deadlock describe_cycle(Request *start, Request *last, const Request *victim) const
      ATOLL_REQUIRES(graph_mutex);
  Deadlock::Member describe_member(const Request &request, const Request &blocker) const;
};

// Makes room in `notes` for one more note of a lock. Call it before the lock is granted: a granted lock that
// its owner cannot note would never be released.
template <typename T>
void make_room(std::vector<T> *notes) {
  if (notes->size() == notes->capacity()) notes->reserve(std::max<size_t>(2 * notes->size(), 8));
}

inline size_t held_in_all(const LockOwner::State &owner) {
  return owner.held_count.load(std::memory_order_relaxed) + owner.exchanged.load(std::memory_order_relaxed);
}

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

// Calls visit(owner) for each other owner whose row ranges do not allow `request`. Requires: the slot's
// mutex.
template <typename Visit>
void each_row_range_holder(const RangeSlot &slot, const Request &request, const Visit &visit) {
  for (const auto &hold : slot.holds) {
    if (hold->owner == request.owner || hold->family_id != request.key.family_id) continue;
    const auto &[shared, exclusive] = hold->rows;
    if (exclusive.contains(request.key.key) ||
        (request.mode == LockMode::kExclusive && shared.contains(request.key.key))) {
      visit(hold->owner);
    }
  }
}

// Calls visit(owner) for each owner that `request` has to wait for: holders, then those in front of it.
// Requires: the request's mutex. Of the queue, the front is visited last.
template <typename Visit>
void each_blocker(const Request &request, const Visit &visit) {
  if (request.is_insert) return each_range_holder(*request.slot, request.owner, request.key, visit);
  if (request.slot != nullptr) return each_row_range_holder(*request.slot, request, visit);
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
void remove_grant(Grant *grant);
void trim_held(LockOwner::State *owner);

// lock_list.cc. What is shown of a waiting request, but for the transactions that it waits for.
LockInfo info_of(const Request &request, Clock::time_point now);

// range_lock.cc. The owner's ranges in the index of `key`; nullptr: none. Both require the slot's mutex.
RangeHold *find_hold(const RangeSlot &slot, const LockOwner::State *owner, const LockKey &key);
RangeHold *make_hold(RangeSlot *slot, LockOwner::State *owner, const LockKey &key);
bool has_blocker(const Request &request);
void enqueue_in_slot(Request *request);
void wake_waiting(const RangeSlot &slot);

// row_range.cc. Require the slot's mutex.
bool row_ranges_allow(const RangeSlot &slot, const Request &request);
bool own_row_range_serves(const RangeSlot &slot, const Request &request);

void wake(LockOwner::State *owner);  // any mutex but an owner's
void await_no_pins(LockOwner::State *owner);

}  // namespace atoll::txn
