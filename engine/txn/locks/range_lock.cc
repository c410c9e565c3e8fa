// Range locks: keys of an index that no other transaction may insert. Also the inserts that wait for their
// release.
//
// A request for a range never waits. The caller's Narrow cuts the range off at the first uncommitted write of
// another owner. The caller then waits for the row lock of that write, and asks for the remaining range. The
// queue of a slot contains only inserts, and requests for row locks that row ranges block (row_range.cc). An
// insert that meets no range in its index costs one atomic read, and a range costs one mutex.

#include <algorithm>
#include <chrono>
#include <functional>

#include "base/border/assert.h"
#include "txn/locks/lock_table_impl.h"

namespace atoll::txn {

namespace {

std::string_view index_start(const LockKey &key) { return key.key.substr(0, kIndexStartBytes); }

}  // namespace

void grant_waiting(RangeSlot *slot) {
  for (Request *request = slot->queue_head; request != nullptr;) {
    Request *next = request->next;
    if (!has_blocker(*request)) {
      dequeue(request);
      request->state = RequestState::kGranted;
      wake(request->owner);
    }
    request = next;
  }
}

RangeHold *find_hold(const RangeSlot &slot, const LockOwner::State *owner, const LockKey &key) {
  for (const auto &hold : slot.holds) {
    if (hold->owner == owner && hold->family_id == key.family_id && hold->index_start == index_start(key)) {
      return hold.get();
    }
  }
  return nullptr;
}

// Adds a hold to the slot and to the owner. If it throws, neither of them has the hold.
RangeHold *make_hold(RangeSlot *slot, LockOwner::State *owner, const LockKey &key) {
  auto made = std::make_unique<RangeHold>();
  RangeHold *hold = made.get();
  hold->owner = owner;
  hold->slot = slot;
  hold->family_id = key.family_id;
  hold->index_start = index_start(key);
  make_room(&owner->ranges);
  slot->holds.push_back(std::move(made));
  owner->ranges.push_back(hold);
  slot->count.fetch_add(1);
  ATOLL_ASSERT(slot->count.load() == slot->holds.size());
  return hold;
}

bool has_blocker(const Request &request) {
  bool found = false;
  each_blocker(request, [&](const LockOwner::State *) { found = true; });
  return found;
}

void wake_waiting(const RangeSlot &slot) {
  for (Request *r = slot.queue_head; r != nullptr; r = r->next) wake(r->owner);
}

void enqueue_in_slot(Request *request) {
  request->next = request->slot->queue_head;
  if (request->next != nullptr) request->next->prev = request;
  request->slot->queue_head = request;
}

RangeSlot &LockTable::Impl::slot_of(const LockKey &key) const {
  uint64_t h = std::hash<std::string_view>{}(index_start(key));
  h = (h ^ key.family_id) * 0xBF58476D1CE4E5B9ull;
  return slots[(h >> 32) % kSlots];
}

bool LockTable::has_ranges(const LockKey &key) const { return impl_->slot_of(key).count.load() > 0; }

void LockTable::lock_range(LockOwner *owner, uint32_t family_id, std::string *lower, std::string *upper,
                           const Narrow &narrow, std::optional<RowInRange> row) {
  LockOwner::State *state = owner->state_.get();
  const LockKey key{family_id, *lower};
  RangeSlot &slot = impl_->slot_of(key);
  MutexLock guard(slot.mutex);
  RangeHold *hold = find_hold(slot, state, key);
  // The hold is made and counted before `narrow` runs. An insert whose write `narrow` does not see yet then
  // sees the count, and takes the slot's mutex.
  if (hold == nullptr) hold = make_hold(&slot, state, key);
  narrow(lower, upper);
  if (*lower >= *upper) return;
  hold->ranges.add(*lower, *upper);
  if (row && row->key >= *lower && row->key < *upper) impl_->lock_row_in_range(hold, *row, *lower, *upper);
  // Inserts that wait already may have to wait for this owner now, too. Wake them, so that they call
  // BeforeWait for this owner.
  if (impl_->before_wait) wake_waiting(slot);
}

bool LockTable::Impl::pass_or_enqueue(Request *request) {
  if (!has_blocker(*request)) return true;
  enqueue_in_slot(request);
  return false;
}

Status LockTable::lock_insert(LockOwner *owner, const LockKey &key, const LockWait &wait,
                              const std::function<Status()> &write) {
  RangeSlot &slot = impl_->slot_of(key);
  const auto began = Clock::now();
  for (;;) {
    Request request;
    request.owner = owner->state_.get();
    request.key = key;
    request.slot = &slot;
    request.is_insert = true;
    request.mode = LockMode::kExclusive;
    {
      MutexLock guard(slot.mutex);
      if (!has_blocker(request)) return write();
    }
    // Other owners can lock ranges between the end of a wait and the next check, so there can be several
    // waits. The timeout limits all of them together.
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
    if (static_cast<uint64_t>(waited.count()) >= wait.timeout_ms) {
      return Status(Code::kLockTimeout, "the key is in a range that another transaction has locked");
    }
    ATOLL_RETURN_IF_ERROR(impl_->wait_for(&request, wait.timeout_ms - static_cast<uint64_t>(waited.count())));
  }
}

void LockTable::Impl::release_hold(RangeHold *hold) {
  RangeSlot &slot = *hold->slot;
  MutexLock guard(slot.mutex);
  const auto is_it = [hold](const std::unique_ptr<RangeHold> &other) { return other.get() == hold; };
  const auto place = std::find_if(slot.holds.begin(), slot.holds.end(), is_it);
  ATOLL_ASSERT(place != slot.holds.end());
  ATOLL_ASSERT(!hold->has_row_ranges() || slot.row_ranges.load() > 0);
  if (hold->has_row_ranges()) slot.row_ranges.fetch_sub(1);
  std::swap(*place, slot.holds.back());
  slot.holds.pop_back();
  slot.count.fetch_sub(1);
  grant_waiting(&slot);
}

void LockTable::Impl::release_ranges(LockOwner::State *owner) {
  for (RangeHold *hold : owner->ranges) release_hold(hold);
  owner->ranges.clear();
}

}  // namespace atoll::txn
