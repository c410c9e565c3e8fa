// See row_locks.h.
#include "table/locks/row_locks.h"

namespace atoll::table {

Status RowLocks::lock(std::string_view key, RowLock mode, const txn::LockWait &wait, bool *waited,
                      txn::LockUse use) {
  newest_is_new_ = false;
  if (table_.is_temporary()) return Status::Ok();
  txn::LockOwner *owner = table_.transaction()->lock_owner();
  const size_t held = owner->locks_held();
  Status status = table_.locks()->lock(owner, {table_.family()->id(), key}, mode_of(mode), wait, waited, use);
  newest_is_new_ = status.ok() && owner->locks_held() > held;
  return status;
}

Status RowLocks::lock_or_peek(std::string_view key, bool *waited) {
  const RowLock mode = table_.mode().lock;
  if (semi_consistent_ != SemiConsistent::kAllowed) {
    if (semi_consistent_ == SemiConsistent::kAgain) semi_consistent_ = SemiConsistent::kAllowed;
    return lock(key, mode, waited);
  }
  const Status status = lock(key, mode, txn::LockWait{0}, waited);
  if (status.code() != Code::kLockTimeout) return status;
  semi_consistent_ = SemiConsistent::kReturned;
  *waited = true;  // another transaction has locked the row: what the cursor shows is perhaps old
  return Status::Ok();
}

void RowLocks::give_back(std::string_view primary_key) {
  if (returned_unlocked()) {
    semi_consistent_ = SemiConsistent::kAllowed;
    return;
  }
  // A consistent read has locked nothing, so the newest lock belongs to an earlier statement.
  if (!table_.locking() || !newest_is_new_ || table_.statement().keeps_snapshot()) return;
  release(primary_key);
}

void RowLocks::release(std::string_view key) {
  table_.locks()->unlock(table_.transaction()->lock_owner(), {table_.family()->id(), key});
  newest_is_new_ = false;
}

void RowLocks::allow_semi_consistent(bool allowed) {
  const bool is_on = allowed && !table_.statement().keeps_snapshot() && !table_.is_temporary();
  semi_consistent_ = is_on ? SemiConsistent::kAllowed : SemiConsistent::kOff;
}

void RowLocks::begin_search(bool for_one_row) {
  if (semi_consistent_ != SemiConsistent::kOff)
    semi_consistent_ = for_one_row ? SemiConsistent::kAgain : SemiConsistent::kAllowed;
}

}  // namespace atoll::table
