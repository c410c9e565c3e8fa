// ha_atoll: statements, lock modes and row locks.
#include "handler/ha_atoll.h"

#include "handler/error_map.h"
#include "plugin/instance.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace txn = atoll::txn;

// Decides how the statement reads this table: at the snapshot, or the latest rows under locks.
THR_LOCK_DATA **ha_atoll::store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type) {
  if (lock_type == TL_IGNORE) return to;
  skip_locked_ = lock_type == TL_READ_SKIP_LOCKED || lock_type == TL_WRITE_SKIP_LOCKED;
  const bool shared = lock_type == TL_READ_WITH_SHARED_LOCKS || lock_type == TL_READ_SKIP_LOCKED;
  if (shared) {
    lock_ = ah::RowLock::kShared;
  } else if (lock_type >= TL_FIRST_WRITE) {
    lock_ = ah::RowLock::kExclusive;
  } else {
    // SERIALIZABLE: a plain SELECT inside a transaction locks what it reads.
    const bool serializable = thd_tx_isolation(thd) == ISO_SERIALIZABLE &&
                              thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
    lock_ = serializable ? ah::RowLock::kShared : ah::RowLock::kNone;
  }
  return to;
}

int ha_atoll::external_lock(THD *thd, int lock_type) {
  if (Status status = atoll::plugin::ready(); !status.ok()) return fail(status);
  session_ = ah::Session::of(thd, true);
  if (lock_type == F_UNLCK) {
    close_cursor();
    parallel_.reset();
    write_locked_ = false;
    lock_ = ah::RowLock::kNone;
    if (session_->open_tables > 0 && --session_->open_tables == 0 && session_->has_transaction() &&
        !session_->snapshot_is_shared_by_statements())
      session_->end_read_view();
    return 0;
  }
  if (lock_type == F_WRLCK) {
    if (int error = check_writable()) return error;
    lock_ = ah::RowLock::kExclusive;
  }
  write_locked_ = lock_type == F_WRLCK;
  session_->open_tables++;
  session_->enter_statement();
  return 0;
}

int ha_atoll::start_stmt(THD *thd, thr_lock_type lock_type) {
  if (Status status = atoll::plugin::ready(); !status.ok()) return fail(status);
  session_ = ah::Session::of(thd, true);
  if (lock_type >= TL_FIRST_WRITE) {
    if (int error = check_writable()) return error;
    lock_ = ah::RowLock::kExclusive;
    write_locked_ = true;
  }
  session_->enter_statement();
  return 0;
}

// HANDLER ... OPEN keeps the table open between statements, without locks: each READ is a consistent read.
void ha_atoll::init_table_handle_for_HANDLER() {
  session_ = ah::Session::of(ha_thd(), true);
  session_->enter_statement();
  lock_ = ah::RowLock::kNone;
  write_locked_ = false;
}

int ha_atoll::check_writable() {
  if (is_temporary()) return 0;
  if (opt_readonly && !(ha_thd()->security_ctx->master_access & PRIV_IGNORE_READ_ONLY) &&
      !ha_thd()->slave_thread)
    return 0;                                        // the server refuses by itself
  const Status status = atoll::plugin::may_write();  // fenced, or atoll_read_only
  return status.ok() ? 0 : fail(status);
}

txn::ReadAt ha_atoll::read_at() const { return locking() ? txn::ReadAt::kLatest : txn::ReadAt::kSnapshot; }

// Takes the row lock the statement needs. Remembers whether it is new, for unlock_row().
Status ha_atoll::lock_row(std::string_view key, ah::RowLock mode, bool *waited) {
  txn::LockTable *locks = atoll::plugin::instance()->transactions->locks();
  txn::LockOwner *owner = transaction()->lock_owner();
  const txn::LockRange range{layout_->family()->id(), key};
  const txn::LockMode lock_mode =
      mode == ah::RowLock::kShared ? txn::LockMode::kShared : txn::LockMode::kExclusive;
  if (is_temporary()) {
    current_lock_is_new_ = false;
    return Status::Ok();
  }
  const size_t held = owner->locks_held();
  txn::LockWait wait;
  wait.timeout_ms = skip_locked_ ? 0 : atoll::plugin::lock_wait_timeout_s(ha_thd()) * 1000;
  Status status = locks->lock(owner, range, lock_mode, wait, waited);
  current_lock_is_new_ = status.ok() && owner->locks_held() > held;
  return status;
}

// The row just read did not match: under READ COMMITTED its lock goes, unless an earlier statement took it.
void ha_atoll::unlock_row() {
  if (!current_lock_is_new_ || session_->snapshot_is_shared_by_statements()) return;
  atoll::plugin::instance()->transactions->locks()->unlock(
      transaction()->lock_owner(), txn::LockRange{layout_->family()->id(), current_primary_key_});
  current_lock_is_new_ = false;
}
