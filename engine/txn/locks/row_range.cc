// Row ranges: they replace the row locks of an owner that has very many. A scan that locks ranges of keys
// makes row ranges of these, and has few row locks then (LockTable::lock_range()).
//
// Each row lock goes into KeyRanges as a range of one key. The ranges of successive numbers touch, so
// KeyRanges stores them as one. Beyond a limit, KeyRanges joins neighbouring ranges together with the keys
// between them. Row locks that come in the order of the index, as in a scan or a load, become ranges with few
// other keys in them. Row locks all over an index become a lock on nearly the whole index.
//
// Why row ranges lock no less than the row locks before them (LOCK-5): a key whose row lock was exchanged is
// in a row range, and every request for that key looks at the row ranges (LOCKTAB-5). Why a row range can
// include keys that other owners have locked: the owner relies on its row range only where the key has no row
// lock at all (grant_after_look). Otherwise the owner waits for that row lock.

#include <algorithm>
#include <iterator>
#include <string>

#include "base/border/assert.h"
#include "txn/locks/lock_table_impl.h"

namespace atoll::txn {

namespace {

// How many row locks are exchanged before the slot's mutex is released: about 0.5 ms.
constexpr size_t kExchangedAtOnce = 1000;

// Sets *end so that [key, *end) contains `key`, and otherwise only longer keys that begin with `key`, which
// no index has. If `key` ends with the byte 0xFF, a few other keys behind it are in the range, too: that
// locks more than needed, never less.
void set_range_end(std::string_view key, std::string *end) {
  end->assign(key);
  for (size_t i = end->size(); i > 0; --i) {
    if (++(*end)[i - 1] != '\0') return;
  }
  end->assign(key).push_back('\0');
}

bool comes_first(const Grant *a, const Grant *b) {
  if (a->lock->family_id != b->lock->family_id) return a->lock->family_id < b->lock->family_id;
  return a->lock->key() < b->lock->key();
}

// Whether a row range [lower, upper) of the owner of `own` conflicts with a row range of another owner.
bool meets_row_range(const RangeHold &own, LockMode mode, std::string_view lower, std::string_view upper) {
  const auto has_keys = [=](const KeyRanges &ranges) { return ranges.overlaps(lower, upper); };
  const auto &holds = own.slot->holds;
  return std::any_of(holds.begin(), holds.end(), [&](const auto &hold) {
    return hold->owner != own.owner && hold->family_id == own.family_id && hold->refuses(mode, has_keys);
  });
}

}  // namespace

bool row_ranges_allow(const RangeSlot &slot, const Request &request) {
  bool allowed = true;
  each_row_range_holder(slot, request, [&](const LockOwner::State *) { allowed = false; });
  return allowed;
}

bool own_row_range_serves(const RangeSlot &slot, const Request &request) {
  const RangeHold *hold = find_hold(slot, request.owner, request.key);
  if (hold == nullptr) return false;
  const auto &[shared, exclusive] = hold->rows;
  return exclusive.contains(request.key.key) ||
         (request.mode == LockMode::kShared && shared.contains(request.key.key));
}

void LockTable::Impl::bound_row_locks(LockOwner::State *owner) {
  const size_t most = row_locks_max.load(std::memory_order_relaxed);
  if (most > 0 && owner->held_count.load(std::memory_order_relaxed) > most) exchange_row_locks(owner);
}

void LockTable::Impl::exchange_row_locks(LockOwner::State *owner) {
  std::vector<Grant *> sorted;
  sorted.reserve(owner->held.size());
  std::copy_if(owner->held.begin(), owner->held.end(), std::back_inserter(sorted),
               [](const Grant *grant) { return grant != nullptr; });
  std::sort(sorted.begin(), sorted.end(), comes_first);
  for (size_t from = 0; from < sorted.size();) from = exchange_some(owner, sorted, from);
  trim_held(owner);
}

// While the slot has no row ranges, other owners get row locks without its mutex. The first range leaves the
// row out: it only makes them take the mutex from then on (LOCKTAB-5), so that has_row_lock() cannot be
// overtaken.
void LockTable::Impl::lock_row_in_range(RangeHold *hold, const RowInRange &row, std::string_view lower,
                                        std::string_view upper) {
  if (meets_row_range(*hold, row.mode, lower, upper)) return;
  if (hold->slot->row_ranges.load() == 0) {
    if (lower < row.key) return add_row_range(hold, row.mode, lower, row.key);
    const std::string behind = std::string(row.key) + '\0';
    if (behind < upper) add_row_range(hold, row.mode, behind, upper);
    return;
  }
  if (has_row_lock({hold->family_id, row.key})) return;
  add_row_range(hold, row.mode, lower, upper);
  hold->owner->exchanged.fetch_add(1, std::memory_order_relaxed);
}

void LockTable::Impl::add_row_range(RangeHold *hold, LockMode mode, std::string_view lower,
                                    std::string_view upper) {
  const bool is_counted = hold->has_row_ranges();
  hold->rows[static_cast<size_t>(mode)].add(lower, upper, row_ranges_max.load(std::memory_order_relaxed));
  if (!is_counted) hold->slot->row_ranges.fetch_add(1);
}

// Exchanges row locks of one index, from sorted[from] on. Returns the index in `sorted` from which the next
// call goes on.
size_t LockTable::Impl::exchange_some(LockOwner::State *owner, const std::vector<Grant *> &sorted,
                                      size_t from) {
  const LockKey first{sorted[from]->lock->family_id, sorted[from]->lock->key()};
  const std::string index(first.key.substr(0, kIndexStartBytes));
  RangeSlot &slot = slot_of(first);
  MutexLock slot_guard(slot.mutex);
  RangeHold *hold = find_hold(slot, owner, first);
  if (hold == nullptr) hold = make_hold(&slot, owner, first);
  std::string end;
  size_t at = from;
  for (; at < std::min(sorted.size(), from + kExchangedAtOnce); ++at) {
    Grant *grant = sorted[at];
    Lock *lock = grant->lock;
    if (lock->family_id != hold->family_id || lock->key().substr(0, kIndexStartBytes) != index) break;
    set_range_end(lock->key(), &end);
    add_row_range(hold, grant->mode, lock->key(), end);
    Shard &shard = shard_of(lock->hash);
    MutexLock guard(shard.mutex);
    if (lock->queue_head != nullptr) continue;
    ATOLL_ASSERT(owner->held[grant->index] == grant);
    owner->held[grant->index] = nullptr;
    owner->held_count.fetch_sub(1, std::memory_order_relaxed);
    owner->exchanged.fetch_add(1, std::memory_order_relaxed);
    remove_grant(grant);
    remove_if_unused(&shard, lock);
  }
  // A request that waits for other row ranges may have to wait for this owner now, too. Wake it, so that
  // it calls BeforeWait for this owner.
  if (before_wait) wake_waiting(slot);
  return at;
}

}  // namespace atoll::txn
