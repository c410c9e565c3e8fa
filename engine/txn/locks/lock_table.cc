// Row locks, their holders and their queues. Range locks are in range_lock.cc, row ranges in row_range.cc,
// waiting in lock_wait.cc, the search for deadlocks in deadlock.cc, what a prepared transaction releases in
// prepared_locks.cc, the data structures and the order of mutexes in lock_table_impl.h.
//
// The common case, a free lock, costs one shard mutex, one allocation and one hash lookup. Only a request
// that must wait takes the graph mutex.

#include "txn/locks/lock_table.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "base/border/assert.h"
#include "base/work.h"
#include "txn/locks/lock_table_impl.h"

namespace atoll::txn {

namespace {

constexpr uint16_t kTakenMax = UINT16_MAX;  // a Grant::taken of this value is not counted down any more

size_t bucket_of(const Shard &shard, uint32_t hash) { return hash & (shard.buckets.size() - 1); }

Lock *find(const Shard &shard, const LockKey &key, uint32_t hash) {
  if (shard.buckets.empty()) return nullptr;
  Lock *lock = shard.buckets[bucket_of(shard, hash)];
  while (lock != nullptr &&
         (lock->hash != hash || lock->family_id != key.family_id || lock->key() != key.key)) {
    lock = lock->bucket_next;
  }
  return lock;
}

void grow(Shard *shard) {
  std::vector<Lock *> old(std::max<size_t>(8, shard->buckets.size() * 2), nullptr);
  old.swap(shard->buckets);
  for (Lock *lock : old) {
    while (lock != nullptr) {
      Lock *next = lock->bucket_next;
      Lock *&head = shard->buckets[bucket_of(*shard, lock->hash)];
      lock->bucket_next = head;
      head = lock;
      lock = next;
    }
  }
}

Lock *find_or_create(Shard *shard, const LockKey &key, uint32_t hash) {
  if (Lock *lock = find(*shard, key, hash); lock != nullptr) return lock;
  if (shard->count * 2 >= shard->buckets.size()) grow(shard);
  Lock *lock = new (::operator new(sizeof(Lock) + key.key.size())) Lock;
  lock->hash = hash;
  lock->family_id = key.family_id;
  lock->key_size = static_cast<uint32_t>(key.key.size());
  if (!key.key.empty()) std::memcpy(lock->key_bytes(), key.key.data(), key.key.size());
  Lock *&head = shard->buckets[bucket_of(*shard, hash)];
  lock->bucket_next = head;
  head = lock;
  ++shard->count;
  return lock;
}

Grant *find_grant(Lock *lock, const LockOwner::State *owner) {
  for (Grant *g = &lock->first; g != nullptr; g = g->next) {
    if (g->owner == owner) return g;
  }
  return nullptr;
}

bool holders_allow(const Lock *lock, const LockOwner::State *owner, LockMode mode) {
  for (const Grant *g = &lock->first; g != nullptr; g = g->next) {
    if (g->owner != nullptr && g->owner != owner && !compatible(g->mode, mode)) return false;
  }
  return true;
}

// Adds the owner to the holders of the lock. The first holder's grant is inside the lock. For a further
// holder, takes `spare` or, if that is nullptr, allocates a grant.
Grant *add_grant(Lock *lock, LockOwner::State *owner, LockMode mode, std::unique_ptr<Grant> spare) {
  ATOLL_ASSERT_DEAR(holders_allow(lock, owner, mode));
  Grant *grant = &lock->first;
  if (grant->owner != nullptr) {
    grant = spare ? spare.release() : new Grant;
    grant->next = lock->first.next;
    lock->first.next = grant;
  }
  grant->owner = owner;
  grant->lock = lock;
  grant->mode = mode;
  grant->taken = 1;
  grant->is_read = grant->is_written = false;
  return grant;
}

void count_taken(Grant *grant) {
  if (grant->taken != kTakenMax) ++grant->taken;
}

// Grants the lock if LOCK-1 allows it: if it is compatible with the locks of all other owners and, unless the
// owner holds the lock already, with all requests in the queue. Returns the owner's grant; *is_new tells
// whether this call has made it. Returns nullptr if the owner has to wait.
Grant *try_grant(Lock *lock, LockOwner::State *owner, LockMode mode, bool *is_new) {
  *is_new = false;
  Grant *own = find_grant(lock, owner);
  if (own != nullptr) {
    if (mode == LockMode::kExclusive && own->mode == LockMode::kShared) {
      if (!holders_allow(lock, owner, mode)) return nullptr;
      own->mode = mode;
    }
    count_taken(own);
    return own;
  }
  if (!holders_allow(lock, owner, mode)) return nullptr;
  for (const Request *r = lock->queue_head; r != nullptr; r = r->next) {
    if (!compatible(r->mode, mode)) return nullptr;
  }
  *is_new = true;
  return add_grant(lock, owner, mode, nullptr);
}

// Puts the request into the lock's queue. An upgrade goes before all requests whose owners do not hold the
// lock yet, because none of these could be granted before the upgrade.
void enqueue(Lock *lock, Request *request) {
  request->lock = lock;
  request->grant = find_grant(lock, request->owner);
  request->upgrade = request->grant != nullptr;
  Request *before = nullptr;
  Request *after = lock->queue_head;
  while (after != nullptr && (!request->upgrade || after->upgrade)) {
    before = after;
    after = after->next;
  }
  request->prev = before;
  request->next = after;
  (before != nullptr ? before->next : lock->queue_head) = request;
  if (after != nullptr) after->prev = request;
}

void compact_held(LockOwner::State *owner) {
  size_t to = 0;
  size_t immune = 0;
  for (size_t from = 0; from < owner->held.size(); ++from) {
    Grant *grant = owner->held[from];
    if (grant == nullptr) continue;
    if (from < owner->immune) ++immune;
    grant->index = static_cast<uint32_t>(to);
    owner->held[to++] = grant;
  }
  owner->held.resize(to);
  owner->immune = immune;
}

// True if the owner has the row lock already, in the requested mode or a stronger one.
bool holds_row(const Shard &shard, const Request &request) {
  const Grant *own = LockTable::Impl::find_own(shard, request);
  return own != nullptr && (request.mode == LockMode::kShared || own->mode == LockMode::kExclusive);
}

// Wakes all waiters of the lock but `except`, so that they report their blockers again (BeforeWait). Call
// when they have a new blocker: an upgrade was queued before them, or a holder upgraded its lock.
void wake_queue(Lock *lock, const Request *except) {
  for (Request *r = lock->queue_head; r != nullptr; r = r->next) {
    if (r != except) wake(r->owner);
  }
}

}  // namespace

// Successive numbers end in successive bytes. Eight such keys get buckets beside each other, in one line of
// the CPU's cache: a statement that locks a million rows in their order waits less often for memory.
uint32_t hash_of(const LockKey &key) {
  constexpr uint8_t kNeighbours = 8;
  std::string_view start = key.key;
  uint8_t last = 0;
  if (!start.empty()) {
    last = static_cast<uint8_t>(start.back());
    start.remove_suffix(1);
  }
  uint64_t h = std::hash<std::string_view>{}(start);
  h ^= (uint64_t{key.family_id} << 8 | last / kNeighbours) * 0x9E3779B97F4A7C15ull;
  h *= 0xBF58476D1CE4E5B9ull;
  return static_cast<uint32_t>(h >> 32) ^ last % kNeighbours;
}

void remove_grant(Grant *grant) {
  Lock *lock = grant->lock;
  ATOLL_ASSERT(grant->owner != nullptr);
  ATOLL_ASSERT_DEAR(holders_allow(lock, grant->owner, grant->mode));
  if (grant == &lock->first) {
    grant->owner = nullptr;
    return;
  }
  Grant **link = &lock->first.next;
  while (*link != grant) link = &(*link)->next;
  *link = grant->next;
  delete grant;
}

// Removes nullptr elements from owner->held. Call after elements were set to nullptr.
void trim_held(LockOwner::State *owner) {
  while (!owner->held.empty() && owner->held.back() == nullptr) owner->held.pop_back();
  owner->immune = std::min(owner->immune, owner->held.size());
  const size_t count = owner->held_count.load(std::memory_order_relaxed);
  if (owner->held.size() > 2 * count + 64) compact_held(owner);
}

void dequeue(Request *request) {
  Request *&head = request->slot != nullptr ? request->slot->queue_head : request->lock->queue_head;
  (request->prev != nullptr ? request->prev->next : head) = request->next;
  if (request->next != nullptr) request->next->prev = request->prev;
  request->next = request->prev = nullptr;
}

// Adds a new grant to the owner's list. Call on the owner's thread.
void add_held(LockOwner::State *owner, Grant *grant) {
  ATOLL_ASSERT(owner->held.size() < owner->held.capacity());  // see make_room()
  grant->index = static_cast<uint32_t>(owner->held.size());
  owner->held.push_back(grant);
  owner->held_count.fetch_add(1, std::memory_order_relaxed);
}

void grant_waiters(Lock *lock) {
  while (Request *request = lock->queue_head) {
    if (!holders_allow(lock, request->owner, request->mode)) return;
    dequeue(request);
    if (request->upgrade) {
      ATOLL_ASSERT(request->grant->owner == request->owner);
      request->grant->mode = request->mode;
      count_taken(request->grant);
    } else {
      request->grant = add_grant(lock, request->owner, request->mode, std::move(request->spare));
    }
    request->grant->is_read |= request->use == LockUse::kRead;
    request->state = RequestState::kGranted;
    wake(request->owner);
  }
}

void remove_if_unused(Shard *shard, Lock *lock) {
  if (lock->has_holder() || lock->queue_head != nullptr) return;
  Lock **link = &shard->buckets[bucket_of(*shard, lock->hash)];
  while (*link != lock) link = &(*link)->bucket_next;
  *link = lock->bucket_next;
  lock->~Lock();
  ::operator delete(lock);
  if (--shard->count == 0 && shard->buckets.size() > 1024) std::vector<Lock *>().swap(shard->buckets);
}

LockOwner::LockOwner(uint64_t transaction_id, void *user) : state_(std::make_unique<State>()) {
  state_->self = this;
  state_->transaction_id = transaction_id;
  state_->user.store(user);
}

uint64_t LockOwner::transaction_id() const { return state_->transaction_id; }
void *LockOwner::user() const { return state_->user.load(); }
size_t LockOwner::locks_held() const { return held_in_all(*state_); }

void LockOwner::set_user(void *user) {
  // A callback that pinned the owner before this store may see the old user, so wait for the end of the
  // callback. A later callback sees the new user.
  state_->user.store(user);
  await_no_pins(state_.get());
}

void LockOwner::swap(LockOwner &other) {
  std::swap(state_, other.state_);
  std::swap(state_->self, other.state_->self);
}

LockTable::LockTable() : impl_(std::make_unique<Impl>()) {}

LockTable::~LockTable() {
  for (Shard &shard : impl_->shards) {
    for (Lock *lock : shard.buckets) {
      while (lock != nullptr) {
        Lock *next = lock->bucket_next;
        while (Grant *extra = lock->first.next) {
          lock->first.next = extra->next;
          delete extra;
        }
        lock->~Lock();
        ::operator delete(lock);
        lock = next;
      }
    }
  }
}

void LockTable::set_before_wait(BeforeWait callback) { impl_->before_wait = std::move(callback); }
void LockTable::set_describe_user(DescribeUser callback) { impl_->describe_user = std::move(callback); }

void LockTable::set_victim_preference(VictimPreference callback) {
  impl_->victim_preference = std::move(callback);
}

void LockTable::set_row_locks_max(size_t count, size_t ranges_max) {
  impl_->row_ranges_max.store(ranges_max, std::memory_order_relaxed);
  impl_->row_locks_max.store(count, std::memory_order_relaxed);
}

Status LockTable::lock(LockOwner *owner, const LockKey &key, LockMode mode, const LockWait &wait,
                       bool *waited, LockUse use) {
  if (waited != nullptr) *waited = false;
  count_work(WorkKind::kRowLocks);
  Request request;
  request.owner = owner->state_.get();
  request.key = key;
  request.mode = mode;
  request.use = use;
  request.hash = hash_of(key);
  make_room(&request.owner->held);
  bool granted = false;
  {
    Shard &shard = impl_->shard_of(request.hash);
    const RangeSlot &slot = impl_->slot_of(key);
    MutexLock guard(shard.mutex);
    const bool may_grant = slot.row_ranges.load() == 0 || holds_row(shard, request);
    granted = may_grant && impl_->grant_now(&shard, request);
  }
  if (!granted) ATOLL_RETURN_IF_ERROR(impl_->lock_slowly(&request, wait, waited));
  impl_->bound_row_locks(request.owner);
  return Status::Ok();
}

bool LockTable::Impl::lock_past_ranges(LockOwner::State *owner, const LockKey &key) {
  Request request;
  request.owner = owner;
  request.key = key;
  request.mode = LockMode::kExclusive;
  request.hash = hash_of(key);
  make_room(&owner->held);
  Shard &shard = shard_of(request.hash);
  MutexLock guard(shard.mutex);
  return grant_now(&shard, request);
}

Status LockTable::lock_recovered(LockOwner *owner, const LockKey &key) {
  if (!impl_->lock_past_ranges(owner->state_.get(), key))
    return Status(Code::kLockTimeout, "the row is locked");
  impl_->bound_row_locks(owner->state_.get());
  return Status::Ok();
}

Grant *LockTable::Impl::find_own(const Shard &shard, const Request &request) {
  Lock *lock = find(shard, request.key, request.hash);
  return lock == nullptr ? nullptr : find_grant(lock, request.owner);
}

bool LockTable::Impl::has_row_lock(const LockKey &key) const {
  const uint32_t hash = hash_of(key);
  const Shard &shard = shard_of(hash);
  MutexLock guard(shard.mutex);
  return find(shard, key, hash) != nullptr;
}

bool LockTable::Impl::grant_now(Shard *shard, const Request &request) {
  Lock *lock = find_or_create(shard, request.key, request.hash);
  bool is_new = false;
  Grant *grant = try_grant(lock, request.owner, request.mode, &is_new);
  if (grant == nullptr) return false;
  grant->is_read |= request.use == LockUse::kRead;
  if (is_new)
    add_held(request.owner, grant);
  else if (lock->queue_head != nullptr && before_wait)
    wake_queue(lock, nullptr);
  return true;
}

bool LockTable::Impl::grant_after_look(Request *request, bool enqueue_it) {
  RangeSlot &slot = slot_of(request->key);
  MutexLock slot_guard(slot.mutex);
  if (!row_ranges_allow(slot, *request)) {
    if (enqueue_it) {
      request->slot = &slot;
      enqueue_in_slot(request);
    }
    return false;
  }
  Shard &shard = shard_of(request->hash);
  MutexLock guard(shard.mutex);
  // The owner's own row range suffices only if no owner has a row lock on the key, and none waits for one.
  request->in_own_range =
      own_row_range_serves(slot, *request) && find(shard, request->key, request->hash) == nullptr;
  if (request->in_own_range) return true;
  if (grant_now(&shard, *request)) return true;
  if (!enqueue_it) return false;
  Lock *lock = find(shard, request->key, request->hash);
  enqueue(lock, request);
  if (request->upgrade && before_wait) wake_queue(lock, request);
  return false;
}

// Waits for row ranges of other owners, and for the row lock, until the lock is granted.
Status LockTable::Impl::lock_slowly(Request *request, const LockWait &wait, bool *waited) {
  const auto began = Clock::now();
  for (;;) {
    if (grant_after_look(request, false)) break;
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
    const auto spent_ms = static_cast<uint64_t>(spent.count());
    if (spent_ms >= wait.timeout_ms) {
      return Status(Code::kLockTimeout, "the row is locked by another transaction");
    }
    if (waited != nullptr) *waited = true;
    ATOLL_RETURN_IF_ERROR(wait_for(request, wait.timeout_ms - spent_ms));
    if (request->slot == nullptr) break;
    // The row ranges that blocked the request are gone, but the lock is not granted yet. So the loop tries to
    // grant it again.
    request->slot = nullptr;
    request->state = RequestState::kWaiting;
  }
  if (!request->in_own_range) pin_exchanged(*request);
  return Status::Ok();
}

// If an earlier lock() of this key has become part of a row range, unlock() never takes it back. Then
// unlock() must not release this later row lock either: `taken` does not count the earlier lock(), and this
// lock can have a stronger mode than the row range. So this function makes the row lock immune to unlock().
void LockTable::Impl::pin_exchanged(const Request &request) {
  const RangeSlot &slot = slot_of(request.key);
  Shard &shard = shard_of(request.hash);
  MutexLock slot_guard(slot.mutex);
  Request any;
  any.owner = request.owner;
  any.key = request.key;
  any.mode = LockMode::kShared;
  if (!own_row_range_serves(slot, any)) return;
  MutexLock guard(shard.mutex);
  if (Grant *own = find_own(shard, request)) own->taken = kTakenMax;
}

bool LockTable::holds(LockOwner *owner, const LockKey &key, LockMode mode) const {
  const uint32_t hash = hash_of(key);
  const Shard &shard = impl_->shard_of(hash);
  MutexLock guard(shard.mutex);
  Lock *lock = find(shard, key, hash);
  const Grant *grant = lock == nullptr ? nullptr : find_grant(lock, owner->state_.get());
  return grant != nullptr && (grant->mode == mode || grant->mode == LockMode::kExclusive);
}

void LockTable::unlock(LockOwner *owner, const LockKey &key) {
  LockOwner::State *state = owner->state_.get();
  const uint32_t hash = hash_of(key);
  Shard &shard = impl_->shard_of(hash);
  MutexLock guard(shard.mutex);
  Lock *lock = find(shard, key, hash);
  Grant *grant = lock == nullptr ? nullptr : find_grant(lock, state);
  if (grant == nullptr || grant->index < state->immune || grant->taken == kTakenMax) return;
  ATOLL_ASSERT(grant->taken > 0 && state->held[grant->index] == grant);
  if (--grant->taken > 0) return;
  state->held[grant->index] = nullptr;
  state->held_count.fetch_sub(1, std::memory_order_relaxed);
  release_grant(&shard, grant);
  trim_held(state);
}

size_t LockTable::mark(LockOwner *owner) const {
  owner->state_->immune = owner->state_->held.size();
  return owner->locks_held();
}

void LockTable::unlock_all(LockOwner *owner) {
  LockOwner::State *state = owner->state_.get();
  for (Grant *grant : state->held) {
    if (grant == nullptr) continue;
    Shard &shard = impl_->shard_of(grant->lock->hash);
    MutexLock guard(shard.mutex);
    release_grant(&shard, grant);
  }
  if (state->held.capacity() > 4096) std::vector<Grant *>().swap(state->held);
  state->held.clear();
  state->immune = 0;
  state->held_count.store(0, std::memory_order_relaxed);
  state->exchanged.store(0, std::memory_order_relaxed);
  if (!state->ranges.empty()) impl_->release_ranges(state);
  await_no_pins(state);
}

void LockTable::kill(LockOwner *owner) {
  LockOwner::State *state = owner->state_.get();
  MutexLock guard(state->wake_mutex);
  state->killed = true;
  state->wake.notify_one();
}

void LockTable::clear_kill(LockOwner *owner) {
  MutexLock guard(owner->state_->wake_mutex);
  owner->state_->killed = false;
}

}  // namespace atoll::txn
