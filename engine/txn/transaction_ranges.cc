// Range locks of transactions. An insert looks for range locks of other transactions, and a range lock looks
// for their uncommitted writes.
//
// Why at least one of the two sees the other, so that no insert goes into a locked range (LOCK-4): an insert
// counts itself as a writer of the family, and then reads the count of ranges. A range lock raises the count
// of ranges, and then reads the count of writers. When both see each other, the order in which they take the
// index's mutex decides. Either the write is there when the range lock looks, and the range ends before it.
// Or the range is there when the insert looks, and the insert waits.

#include <memory>
#include <utility>

#include "txn/transaction_impl.h"

#include "base/mutex.h"

namespace atoll::txn {

namespace {

// A write set of up to this size stays in memory during commit and while prepared, so that range locks see
// exactly what was written. Of a larger write set, range locks see only the first and the last key of each
// index. A thousand rows are about 0.3 MB.
constexpr size_t kKeptWriteBytes = 1 << 20;

}  // namespace

void TransactionImpl::count_writer(uint32_t family_id) {
  written_families_.push_back(family_id);
  manager_->activity()->of(family_id).writers.fetch_add(1);
}

// Before the first write to a family, counts this transaction as a writer of it (see the head of this file).
void TransactionImpl::use_family(lsm::Family *family) {
  if (writes_ == nullptr) writes_ = std::make_shared<WriteSet>();
  if (writes_->find_family(family) != nullptr) return;
  if (family->side() == lsm::Side::kMain) count_writer(family->id());
  writes_->add_family(family);
}

// Call before keep_extents() frees the write set. Returns which locks release_rest() must keep. A transaction
// of the server's user does not spill before it is prepared, so all writes are in memory.
KeptLocks TransactionImpl::note_written_locks(KeptLocks kept) {
  if (kept == KeptLocks::kAll || is_spilled()) return KeptLocks::kAll;
  if (writes_ == nullptr) return kept;
  writes_->each(
      lsm::Side::kMain, [&](const lsm::Family *family, std::string_view key, const OwnWrite &write) {
        LockTable *const locks = manager_->locks();
        bool noted = locks->keep_written(&owner_, {family->id(), key}, kept);
        if (!write.removed && write.unique_length > 0)
          noted &= locks->keep_written(&owner_, {family->id(), key.substr(0, write.unique_length)}, kept);
        if (!noted) kept = KeptLocks::kExclusive;
      });
  return kept;
}

void TransactionImpl::keep_extents() {
  if (writes_->memory_bytes() <= kKeptWriteBytes) return;
  auto extents =
      extents_ == nullptr ? std::make_unique<WriteExtents>() : std::make_unique<WriteExtents>(*extents_);
  writes_->each(lsm::Side::kMain, [&](const lsm::Family *family, std::string_view key, const OwnWrite &) {
    extents->add(family->id(), key);
  });
  std::shared_ptr<WriteSet> done;
  MutexLock guard(writes_mutex_);
  extents_ = std::move(extents);
  done.swap(writes_);
}

// Raises `ended` before it drops the writes. So another transaction that no longer finds the writes sees that
// their writer has ended.
void TransactionImpl::forget_writes() {
  FamilyActivity *activity = manager_->activity();
  for (const uint32_t id : written_families_) activity->of(id).ended.fetch_add(1);
  std::shared_ptr<WriteSet> done;
  if (writes_ != nullptr || extents_ != nullptr) {
    MutexLock guard(writes_mutex_);
    done.swap(writes_);
    extents_.reset();
  }
  for (const uint32_t id : written_families_) activity->of(id).writers.fetch_sub(1);
  written_families_.clear();
}

Status TransactionImpl::insert(lsm::Family *family, std::string_view key, std::string_view value,
                               const LockWait &wait, size_t unique_length) {
  const NewWrite entry{value, false, unique_length};
  if (family->side() == lsm::Side::kTemp) return write(family, key, entry);
  ATOLL_RETURN_IF_ERROR(check_write(key, value));
  const LockKey lock_key{family->id(), key};
  bool written = false;
  {
    MutexLock guard(writes_mutex_);
    use_family(family);
    written = !manager_->locks()->has_ranges(lock_key);
    if (written) write_locked(family, key, entry);
  }
  if (written) return bound_memory();
  ATOLL_RETURN_IF_ERROR(manager_->locks()->lock_insert(&owner_, lock_key, wait, [&] {
    MutexLock guard(writes_mutex_);
    write_locked(family, key, entry);
    return Status::Ok();
  }));
  return bound_memory();
}

Transaction::Obstacle TransactionImpl::lock_range(lsm::Family *family, std::string_view lower,
                                                  std::string_view upper, bool forward,
                                                  std::optional<RowInRange> row) {
  count_work(WorkKind::kRangeLocks);
  Obstacle obstacle;
  std::string from(lower), to(upper);
  const auto narrow = [&](std::string *low, std::string *high) {
    manager_->find_foreign_write(this, family, low, high, forward, &obstacle.entry);
  };
  manager_->locks()->lock_range(&owner_, family->id(), &from, &to, narrow, row);
  obstacle.reached = forward ? std::move(to) : std::move(from);
  return obstacle;
}

uint64_t TransactionImpl::commits_seen(const lsm::Family *family) const {
  return manager_->activity()->of(family->id()).ended.load();
}

bool TransactionImpl::find_write(const lsm::Family *family, std::string_view lower, std::string_view upper,
                                 bool forward, FoundWrite *found) const {
  MutexLock guard(writes_mutex_);
  std::string low(lower), high(upper);
  const bool in_set = writes_ != nullptr && txn::find_write(*writes_, family, lower, upper, forward, found);
  if (extents_ == nullptr) return in_set;
  if (in_set) (forward ? high : low) = found->bound;
  return txn::find_write(*extents_, family->id(), low, high, forward, found) || in_set;
}

bool ManagerImpl::find_foreign_write(const TransactionImpl *self, const lsm::Family *family,
                                     std::string *lower, std::string *upper, bool forward,
                                     std::string *entry) {
  const uint64_t writers = activity_.of(family->id()).writers.load();
  if (writers == 0 || (writers == 1 && self != nullptr && self->is_writer_of(family))) return false;
  bool any = false;
  FoundWrite found;
  for (Registry &registry : registries_) {
    MutexLock guard(registry.mutex);
    for (const TransactionImpl *other : registry.transactions) {
      if (other == self || !other->find_write(family, *lower, *upper, forward, &found)) continue;
      any = true;
      (forward ? *upper : *lower) = std::move(found.bound);
      *entry = std::move(found.entry);
    }
  }
  return any;
}

std::string ManagerImpl::outermost_uncommitted(lsm::Family *family, std::string_view lower,
                                               std::string_view upper, bool last) {
  std::string low(lower), high(upper), entry;
  if (!find_foreign_write(nullptr, family, &low, &high, !last, &entry)) return {};
  if (!last) return high;
  low.pop_back();  // find_write() has appended a '\0' to the key
  return low;
}

std::string ManagerImpl::prepared_writer(lsm::Family *family, std::string_view lower,
                                         std::string_view upper) {
  FoundWrite found;
  for (Registry &registry : registries_) {
    MutexLock guard(registry.mutex);
    for (const TransactionImpl *transaction : registry.transactions)
      if (transaction->is_prepared() && transaction->find_write(family, lower, upper, true, &found))
        return transaction->xid();
  }
  return {};
}

}  // namespace atoll::txn
