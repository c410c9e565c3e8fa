// The inside of the lock table: shared by lock_table.cc (row locks and their queues), range_lock.cc (range
// locks), row_range.cc (row ranges), prepared_locks.cc (what a prepared transaction releases), lock_wait.cc
// (waiting) and deadlock.cc (the graph).
//
// Mutexes, in the order in which a thread takes them: graph mutex, one slot's mutex, one shard's, one owner's
// wake mutex. Invariants
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
//              be granted without looking at the row ranges again. A lock() of a row that its owner has
//              locked already, in a mode that suffices, needs neither.
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
  uint32_t index = 0;     // owner->held[index] is this grant; used by the owner's thread only
  uint16_t taken = 0;     // lock() calls not taken back by unlock(); stays at the maximum once reached
  LockMode mode = LockMode::kShared;
  bool is_read = false;     // true: a lock() with LockUse::kRead was granted
  bool is_written = false;  // true: see LockTable::keep_written()
};

// kGranted is set by the thread that grants the lock to the waiter, kDeadlock by the thread that has chosen
// the request as the victim of a deadlock.
enum class RequestState : uint8_t { kWaiting, kGranted, kDeadlock };

// A waiting lock() or lock_insert() call; lives on the waiter's stack.
struct Request {
  LockOwner::State *owner = nullptr;
  LockKey key;
  Lock *lock = nullptr;          // the lock in whose queue a lock() waits
  RangeSlot *slot = nullptr;     // the slot in whose queue a lock_insert() waits, or a lock() for row ranges
  bool is_insert = false;        // true: a lock_insert(); false: a lock()
  Request *next = nullptr;       // towards the end of the queue
  Request *prev = nullptr;       // towards the front of the queue
  Grant *grant = nullptr;        // what the request gets; while it waits for an upgrade, the shared grant
  std::unique_ptr<Grant> spare;  // allocated before the wait, so that the granting thread needs no memory
  Clock::time_point since;       // when the wait began
  uint32_t hash = 0;             // of `key`; not set for a lock_insert()
  LockMode mode = LockMode::kShared;
  LockUse use = LockUse::kRead;
  bool upgrade = false;       // true: the owner holds a shared lock and wants an exclusive one
  bool in_own_range = false;  // true: the owner's row range serves, so it needs no row lock
  RequestState state = RequestState::kWaiting;  // guarded by Impl::mutex_of() of the request
  // Of the search for cycles, guarded by the graph mutex: the numbers (Impl::epoch) of the last search that
  // has reached this request and of the last one that has expanded it, and from which request it was reached.
  uint64_t visited_epoch = 0;
  uint64_t expanded_epoch = 0;
  Request *reached_from = nullptr;
};

// A locked (family, key). The key's bytes follow the struct.
struct Lock {
  Lock *bucket_next = nullptr;  // the next lock in the same bucket of the shard
  uint32_t hash = 0;
  uint32_t family_id = 0;
  uint32_t key_size = 0;
  Request *queue_head = nullptr;  // the front of the queue; nullptr: nobody waits
  Grant first;                    // the first holder; first.next: the other holders

  char *key_bytes() { return reinterpret_cast<char *>(this + 1); }
  std::string_view key() const { return {reinterpret_cast<const char *>(this + 1), key_size}; }
  bool has_holder() const { return first.owner != nullptr || first.next != nullptr; }
};

// The thread analysis (base/mutex.h) cannot follow how a request leads to the mutex of its shard or slot
// (Impl::mutex_of). So there is no ATOLL_GUARDED_BY in Shard and RangeSlot; comments say what the mutexes
// guard.
//
// A Shard is a hash table with a part of the locks; the hash of the key decides which part.
struct alignas(64) Shard {
  mutable Mutex mutex;
  std::vector<Lock *> buckets;  // their number is a power of two, or 0
  size_t count = 0;             // of locks
};

// The range locks and row ranges of one owner in one index. A hold is empty until its first range is added.
// It stays empty if nothing was left of that range, or after an exception.
struct RangeHold {
  LockOwner::State *owner = nullptr;
  RangeSlot *slot = nullptr;
  uint32_t family_id = 0;
  std::string index_start;        // the bytes with which all keys of the index begin
  KeyRanges ranges;               // range locks
  std::array<KeyRanges, 2> rows;  // row ranges, by LockMode

  bool has_row_ranges() const { return rows[0].size() + rows[1].size() > 0; }
  // Whether the row ranges refuse other owners a lock in `mode`. has_keys(ranges): whether a set of ranges
  // has keys of that lock.
  template <typename HasKeys>
  bool refuses(LockMode mode, const HasKeys &has_keys) const {
    const auto &[shared, exclusive] = rows;
    return has_keys(exclusive) || (mode == LockMode::kExclusive && has_keys(shared));
  }
};

// The holds of all indexes with the same hash; see Impl::slot_of().
struct alignas(64) RangeSlot {
  std::atomic<uint32_t> count{0};  // number of holds
  // Number of holds with row ranges. A thread raises it under the slot's mutex, before it removes the
  // exchanged row locks under the mutexes of their shards.
  std::atomic<uint32_t> row_ranges{0};
  mutable Mutex mutex;
  std::vector<std::unique_ptr<RangeHold>> holds;
  Request *queue_head = nullptr;  // the requests that wait for ranges of this slot, in any order
};

// The inside of a LockOwner. Grants and requests point to it, so it stays at one address while the
// owner holds a lock or waits (LOCKTAB-2).
struct LockOwner::State {
  LockOwner *self = nullptr;
  uint64_t transaction_id = 0;
  std::atomic<void *> user{nullptr};

  // The row locks, for the owner's thread only. unlock() and exchange_some() set elements to nullptr;
  // trim_held() removes these.
  std::vector<Grant *> held;
  size_t immune = 0;                  // unlock() must not release held[0 .. immune)
  std::atomic<size_t> held_count{0};  // number of elements of `held` that are not nullptr
  // Row locks that have become row ranges, and calls of lock_range() that made row ranges.
  std::atomic<size_t> exchanged{0};

  std::vector<RangeHold *> ranges;  // for the owner's thread only

  Mutex wake_mutex;
  Condition wake;
  bool woken ATOLL_GUARDED_BY(wake_mutex) = false;   // true: the owner must check its request again
  bool killed ATOLL_GUARDED_BY(wake_mutex) = false;  // true: see LockTable::kill()

  std::atomic<uint32_t> pins{0};  // number of BeforeWait callbacks that may use `user` now
  Request *waiting = nullptr;     // its queued request; nullptr: it does not wait. Guarded by the graph mutex
};

// The inside of a LockTable: the tables, the callbacks and counters, and the functions that its files
// share.
struct LockTable::Impl {
  static constexpr size_t kShards = 256;  // number of hash tables for row locks
  static constexpr size_t kSlots = 256;   // number of lists of range locks and row ranges

  mutable std::array<Shard, kShards> shards;
  mutable std::array<RangeSlot, kSlots> slots;
  mutable Mutex graph_mutex;
  uint64_t epoch ATOLL_GUARDED_BY(graph_mutex) = 0;  // the number of the last search for cycles
  Deadlock last_deadlock ATOLL_GUARDED_BY(graph_mutex);
  std::multiset<Clock::time_point> waiting_since ATOLL_GUARDED_BY(graph_mutex);  // the start of each wait
  BeforeWait before_wait;
  DescribeUser describe_user;
  VictimPreference victim_preference;
  std::atomic<uint64_t> deadlocks{0}, waits{0}, wait_us{0};
  std::atomic<size_t> row_locks_max{0};  // 0: no limit
  std::atomic<size_t> row_ranges_max{KeyRanges::kRangesMax};

  // The highest byte of the hash decides: bucket_of() uses its lowest bits.
  Shard &shard_of(uint32_t hash) const { return shards[hash >> 24]; }

  RangeSlot &slot_of(const LockKey &key) const;
  Mutex &mutex_of(const Request &request) const {
    return request.slot != nullptr ? request.slot->mutex : shard_of(request.hash).mutex;
  }

  // In lock_table.cc. grant_now() requires the shard's mutex and what LOCKTAB-5 asks for; it returns true if
  // the lock is granted.
  bool grant_now(Shard *shard, const Request &request);
  // The owner's grant of a row lock; nullptr: it has none. Requires: the shard's mutex.
  static Grant *find_own(const Shard &shard, const Request &request);
  // Takes an exclusive row lock without a look at the row ranges. Returns false if another owner has one.
  bool lock_past_ranges(LockOwner::State *owner, const LockKey &key);
  bool has_row_lock(const LockKey &key) const;  // of any owner, or a request for one. Takes the shard's mutex
  Status lock_slowly(Request *request, const LockWait &wait, bool *waited);
  void pin_exchanged(const Request &request);
  // Looks at the row ranges and, if they allow the request, tries to grant the lock. Takes the mutexes that
  // LOCKTAB-5 asks for. Returns true if the lock is granted. Otherwise queues the request if `enqueue_it` is
  // true.
  bool grant_after_look(Request *request, bool enqueue_it);
  // In range_lock.cc. Requires the slot's mutex. Returns true if no owner blocks the request. Otherwise
  // queues the request and returns false.
  bool pass_or_enqueue(Request *request);
  // In row_range.cc.
  void bound_row_locks(LockOwner::State *owner);
  void exchange_row_locks(LockOwner::State *owner);
  // Both make [lower, upper) a row range and require the slot's mutex. lock_row_in_range() makes none if an
  // owner has a row lock on the key of `row`, which is in the range, or if another owner has a row range that
  // conflicts. Two owners with conflicting row ranges would wait for each other.
  void lock_row_in_range(RangeHold *hold, const RowInRange &row, std::string_view lower,
                         std::string_view upper);
  void add_row_range(RangeHold *hold, LockMode mode, std::string_view lower, std::string_view upper);
  size_t exchange_some(LockOwner::State *owner, const std::vector<Grant *> &sorted, size_t from);
  void release_ranges(LockOwner::State *owner);
  void release_hold(RangeHold *hold);
  // In prepared_locks.cc. Returns true if the hold is gone.
  bool release_part(RangeHold *hold, KeptLocks kept);

  // In lock_wait.cc. wait_for() waits for a request that could not be granted at once. No exception may leave
  // a wait, because other threads have pointers to the request.
  Status wait_for(Request *request, uint64_t timeout_ms);
  bool start_wait(Request *request, Status *status);
  RequestState end_wait(Request *request);
  RequestState state_of(const Request &request);
  void report_blockers(const Request &request, std::vector<uint64_t> *reported);

  // In deadlock.cc. break_cycles() breaks every cycle through `request`, which is queued. Returns true if
  // `request` itself is the victim; it has then been taken out of its queue.
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

// Makes room for one more element in `notes`, an owner's list of locks. Call before the lock is granted:
// adding the lock to the list then needs no memory, so it cannot fail. A granted lock that is not in its
// owner's list would never be released.
template <typename T>
void make_room(std::vector<T> *notes) {
  if (notes->size() == notes->capacity()) notes->reserve(std::max<size_t>(2 * notes->size(), 8));
}

inline size_t held_in_all(const LockOwner::State &owner) {
  return owner.held_count.load(std::memory_order_relaxed) + owner.exchanged.load(std::memory_order_relaxed);
}

inline bool compatible(LockMode a, LockMode b) { return a == LockMode::kShared && b == LockMode::kShared; }

// Calls visit(owner) for each other owner with a range that contains `key`. Requires: the slot's mutex.
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
  const auto has_key = [&request](const KeyRanges &ranges) { return ranges.contains(request.key.key); };
  for (const auto &hold : slot.holds) {
    if (hold->owner == request.owner || hold->family_id != request.key.family_id) continue;
    if (hold->refuses(request.mode, has_key)) visit(hold->owner);
  }
}

// Calls visit(owner) for each owner that `request` has to wait for: first the holders, then the owners of
// requests before it in the queue, the front of the queue last. Requires: the request's mutex.
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

// In lock_table.cc. All require the mutex of the lock's shard.
uint32_t hash_of(const LockKey &key);  // needs no mutex
void dequeue(Request *request);        // or the slot's mutex, if the request is queued in a slot
void grant_waiters(Lock *lock);  // grants requests from the front of the queue while possible, and wakes
                                 // their owners
void remove_if_unused(Shard *shard, Lock *lock);
void add_held(LockOwner::State *owner, Grant *grant);
void remove_grant(Grant *grant);
// Removes the grant and the lock if nobody needs it any more, and grants what waited for it.
inline void release_grant(Shard *shard, Grant *grant) {
  Lock *const lock = grant->lock;
  remove_grant(grant);
  grant_waiters(lock);
  remove_if_unused(shard, lock);
}
void trim_held(LockOwner::State *owner);

// In lock_list.cc. Describes a waiting request, but does not say which transaction blocks it.
LockInfo info_of(const Request &request, Clock::time_point now);

// In range_lock.cc. All require the slot's mutex. find_hold() returns the owner's ranges in the index of
// `key`, nullptr if it has none.
RangeHold *find_hold(const RangeSlot &slot, const LockOwner::State *owner, const LockKey &key);
RangeHold *make_hold(RangeSlot *slot, LockOwner::State *owner, const LockKey &key);
bool has_blocker(const Request &request);
void grant_waiting(RangeSlot *slot);  // grants the waiting requests that have no blocker any more
void enqueue_in_slot(Request *request);
void wake_waiting(const RangeSlot &slot);

// In row_range.cc. Both require the slot's mutex.
bool row_ranges_allow(const RangeSlot &slot, const Request &request);
bool own_row_range_serves(const RangeSlot &slot, const Request &request);

void wake(LockOwner::State *owner);           // the caller can hold any mutex except an owner's
void await_no_pins(LockOwner::State *owner);  // waits until no callback uses the owner

}  // namespace atoll::txn
