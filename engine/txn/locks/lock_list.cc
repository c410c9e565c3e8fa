// Lists of locks, waits and deadlocks for INFORMATION_SCHEMA, SHOW ENGINE STATUS and status variables.

#include "txn/locks/lock_table_impl.h"

namespace atoll::txn {

namespace {

LockInfo describe(const Lock &lock, const LockOwner::State &owner, LockMode mode) {
  return {
      owner.transaction_id, lock.family_id, LockKind::kRow, std::string(lock.key()), "", mode, false, 0, 0};
}

uint64_t ms_between(Clock::time_point from, Clock::time_point to) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(to - from).count());
}

// Requires: the caller holds the request's mutex (Impl::mutex_of()).
LockInfo describe_wait(const Request &r, Clock::time_point now) {
  LockInfo info = info_of(r, now);
  each_blocker(r, [&](const LockOwner::State *blocker) {
    if (info.blocking_transaction_id == 0) info.blocking_transaction_id = blocker->transaction_id;
  });
  return info;
}

void list_lock(const Lock &lock, Clock::time_point now, std::vector<LockInfo> *out) {
  for (const Grant *g = &lock.first; g != nullptr; g = g->next) {
    if (g->owner != nullptr) out->push_back(describe(lock, *g->owner, g->mode));
  }
  for (const Request *r = lock.queue_head; r != nullptr; r = r->next) {
    out->push_back(describe_wait(*r, now));
  }
}

void list_slot(const RangeSlot &slot, Clock::time_point now, std::vector<LockInfo> *out) {
  MutexLock guard(slot.mutex);
  for (const auto &hold : slot.holds) {
    const uint64_t id = hold->owner->transaction_id;
    hold->ranges.each([&](const std::string &lower, const std::string &upper) {
      out->push_back({id, hold->family_id, LockKind::kRange, lower, upper, LockMode::kShared, false, 0, 0});
    });
    for (const LockMode mode : {LockMode::kShared, LockMode::kExclusive}) {
      hold->rows[static_cast<size_t>(mode)].each([&](const std::string &lower, const std::string &upper) {
        out->push_back({id, hold->family_id, LockKind::kRow, lower, upper, mode, false, 0, 0});
      });
    }
  }
  for (const Request *r = slot.queue_head; r != nullptr; r = r->next) {
    out->push_back(describe_wait(*r, now));
  }
}

}  // namespace

LockInfo info_of(const Request &request, Clock::time_point now) {
  return {request.owner->transaction_id,
          request.key.family_id,
          request.is_insert ? LockKind::kInsert : LockKind::kRow,
          std::string(request.key.key),
          "",
          request.mode,
          true,
          ms_between(request.since, now),
          0};
}

const char *LockInfo::mode_name() const {
  switch (kind) {
    case LockKind::kRow:
      return mode == LockMode::kShared ? "shared" : "exclusive";
    case LockKind::kRange:
      return "range";
    case LockKind::kInsert:
      return "insert";
  }
  return "";
}

std::vector<LockInfo> LockTable::list() const {
  std::vector<LockInfo> out;
  const auto now = Clock::now();
  for (const Shard &shard : impl_->shards) {
    MutexLock guard(shard.mutex);
    for (const Lock *head : shard.buckets) {
      for (const Lock *lock = head; lock != nullptr; lock = lock->bucket_next) list_lock(*lock, now, &out);
    }
  }
  for (const RangeSlot &slot : impl_->slots) list_slot(slot, now, &out);
  return out;
}

uint64_t LockTable::deadlocks() const { return impl_->deadlocks.load(std::memory_order_relaxed); }
uint64_t LockTable::waits() const { return impl_->waits.load(std::memory_order_relaxed); }
uint64_t LockTable::wait_us() const { return impl_->wait_us.load(std::memory_order_relaxed); }

WaitingNow LockTable::waiting_now() const {
  const auto now = Clock::now();
  MutexLock guard(impl_->graph_mutex);
  if (impl_->waiting_since.empty()) return {0, 0};
  const Clock::time_point first = *impl_->waiting_since.begin();
  return {impl_->waiting_since.size(), first > now ? 0 : ms_between(first, now)};
}

Deadlock LockTable::last_deadlock() const {
  MutexLock guard(impl_->graph_mutex);
  return impl_->last_deadlock;
}

}  // namespace atoll::txn
