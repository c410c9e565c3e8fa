// What a transaction releases when it is prepared.
//
// From then on the transaction reads nothing, so nobody can see any more what others change or insert beside
// its writes. But its writes can still be undone. So it keeps the row locks on what it has written, as it
// does over a restart. A client that has locked rows for its own purpose (FOR UPDATE) keeps these locks as
// well.

#include <vector>

#include "txn/locks/lock_table_impl.h"

namespace atoll::txn {

namespace {

// Requires: the shard's mutex.
bool note_written(const Shard &shard, const Request &request) {
  Grant *own = LockTable::Impl::find_own(shard, request);
  if (own == nullptr || own->mode != LockMode::kExclusive) return false;
  own->is_written = true;
  return true;
}

bool is_kept(const Grant &grant, KeptLocks kept) {
  if (grant.is_written) return true;
  return kept == KeptLocks::kExclusive && grant.is_read && grant.mode == LockMode::kExclusive;
}

}  // namespace

bool LockTable::keep_written(LockOwner *owner, const LockKey &key, KeptLocks kept) {
  Request request;
  request.owner = owner->state_.get();
  request.key = key;
  request.mode = LockMode::kExclusive;
  request.hash = hash_of(key);
  Shard &shard = impl_->shard_of(request.hash);
  {
    MutexLock guard(shard.mutex);
    if (note_written(shard, request)) return true;
  }
  if (kept != KeptLocks::kWritten) return true;
  RangeSlot &slot = impl_->slot_of(key);
  MutexLock slot_guard(slot.mutex);  // until the key has its row lock, because of LOCKTAB-5
  if (!own_row_range_serves(slot, request)) return true;
  if (!impl_->lock_past_ranges(request.owner, key)) return false;
  MutexLock guard(shard.mutex);
  return note_written(shard, request);
}

bool LockTable::Impl::release_part(RangeHold *hold, KeptLocks kept) {
  auto &[shared, exclusive] = hold->rows;
  if (kept == KeptLocks::kWritten || exclusive.size() == 0) {
    release_hold(hold);
    return true;
  }
  MutexLock guard(hold->slot->mutex);
  hold->ranges = {};
  shared = {};
  grant_waiting(hold->slot);
  return false;
}

void LockTable::release_rest(LockOwner *owner, KeptLocks kept) {
  if (kept == KeptLocks::kAll) return;
  LockOwner::State *state = owner->state_.get();
  for (Grant *&grant : state->held) {
    if (grant == nullptr || is_kept(*grant, kept)) continue;
    Shard &shard = impl_->shard_of(grant->lock->hash);
    MutexLock guard(shard.mutex);
    release_grant(&shard, grant);
    grant = nullptr;
    state->held_count.fetch_sub(1, std::memory_order_relaxed);
  }
  trim_held(state);
  std::erase_if(state->ranges, [&](RangeHold *hold) { return impl_->release_part(hold, kept); });
  if (kept == KeptLocks::kWritten) state->exchanged.store(0, std::memory_order_relaxed);
}

}  // namespace atoll::txn
