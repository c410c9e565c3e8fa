// ha_atoll: statements, lock modes and row locks.
#include "handler/ha_atoll.h"

#include "codec/large_row.h"
#include "handler/error_map.h"
#include "handler/prepared_writers.h"
#include "plugin/instance.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace txn = atoll::txn;

// Exported by the server for engines; no header has them.
extern "C" {
int thd_binlog_format(const MYSQL_THD thd);
bool thd_binlog_filter_ok(const MYSQL_THD thd);
bool thd_sqlcom_can_generate_row_events(const MYSQL_THD thd);
}

namespace {

// Whether rows of a table that a statement only reads are locked though it does not ask for it. SERIALIZABLE:
// in a transaction always. REPEATABLE READ: when the statement writes what it reads elsewhere, because the
// binary log may hold the statement alone, and a replica must read the same.
bool reads_with_locks(THD *thd, thr_lock_type lock_type) {
  const int level = thd_tx_isolation(thd);
  if (level < ISO_REPEATABLE_READ) return false;
  switch (thd->lex->sql_command) {
    case SQLCOM_INSERT:
    case SQLCOM_INSERT_SELECT:
    case SQLCOM_REPLACE:
    case SQLCOM_REPLACE_SELECT:
    case SQLCOM_UPDATE:
    case SQLCOM_UPDATE_MULTI:
    case SQLCOM_DELETE:
    case SQLCOM_DELETE_MULTI:
    case SQLCOM_LOAD:
    case SQLCOM_CREATE_TABLE:
      return true;
    case SQLCOM_ALTER_TABLE:  // nobody else can write
    case SQLCOM_OPTIMIZE:
    case SQLCOM_CHECKSUM:
    case SQLCOM_ANALYZE:
    case SQLCOM_CHECK:
      return false;
    default:
      // TL_READ_NO_INSERT: in a stored function that writes.
      return lock_type == TL_READ_NO_INSERT ||
             (level == ISO_SERIALIZABLE && thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN));
  }
}

// ALTER may copy the table, or build indexes from what is committed.
bool rewrites_table(THD *thd) {
  const enum_sql_command command = thd->lex->sql_command;
  return command == SQLCOM_ALTER_TABLE || command == SQLCOM_CREATE_INDEX || command == SQLCOM_DROP_INDEX;
}

}  // namespace

// Decides how the statement reads this table: at the snapshot, or the latest rows under locks.
THR_LOCK_DATA **ha_atoll::store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type) {
  if (lock_type == TL_IGNORE) return to;
  if (is_sequence()) return to;  // see write_apart(): its row is never locked
  skip_locked_ = lock_type == TL_READ_SKIP_LOCKED || lock_type == TL_WRITE_SKIP_LOCKED;
  const bool shared = lock_type == TL_READ_WITH_SHARED_LOCKS || lock_type == TL_READ_SKIP_LOCKED;
  if (shared) {
    lock_ = ah::RowLock::kShared;
  } else if (lock_type >= TL_FIRST_WRITE) {
    lock_ = ah::RowLock::kExclusive;
  } else {
    lock_ = reads_with_locks(thd, lock_type) ? ah::RowLock::kShared : ah::RowLock::kNone;
  }
  return to;
}

// The server would refuse such a statement a little later, without saying why.
bool ha_atoll::needs_row_logging(THD *thd) {
  if ((table_flags() & HA_BINLOG_STMT_CAPABLE) || thd_binlog_format(thd) != BINLOG_FORMAT_STMT ||
      !thd_binlog_filter_ok(thd) || !thd_sqlcom_can_generate_row_events(thd))
    return false;
  my_error(ER_BINLOG_STMT_MODE_AND_ROW_ENGINE, MYF(0),
           " ATOLL is limited to row-logging when transaction isolation level is READ COMMITTED or"
           " READ UNCOMMITTED.");
  return true;
}

int ha_atoll::external_lock(THD *thd, int lock_type) {
  if (Status status = atoll::plugin::ready(); !status.ok()) return fail(status);
  if (lock_type == F_WRLCK && needs_row_logging(thd)) return HA_ERR_LOGGING_IMPOSSIBLE;
  if (lock_type != F_UNLCK && !is_temporary() && rewrites_table(thd) &&
      ah::refuse_for_prepared_writers(layout_->def()))
    return HA_ERR_LOCK_WAIT_TIMEOUT;
  session_ = ah::Session::of(thd, true);
  if (lock_type == F_UNLCK) {
    close_cursor();
    parallel_.reset();
    write_locked_ = false;
    online_build_.reset();
    lock_ = ah::RowLock::kNone;
    if (newest_layout_) layout_ = std::move(newest_layout_);
    if (session_->open_tables > 0 && --session_->open_tables == 0 && session_->has_transaction() &&
        !session_->snapshot_is_shared_by_statements())
      session_->end_read_view();
    return 0;
  }
  if (lock_type == F_WRLCK) {
    if (int error = check_writable()) return error;
    if (!is_sequence()) lock_ = ah::RowLock::kExclusive;
  }
  write_locked_ = lock_type == F_WRLCK;
  if (write_locked_) online_build_ = share_->online_build();
  session_->open_tables++;
  session_->enter_statement();
  choose_layout();
  return 0;
}

int ha_atoll::start_stmt(THD *thd, thr_lock_type lock_type) {
  if (Status status = atoll::plugin::ready(); !status.ok()) return fail(status);
  session_ = ah::Session::of(thd, true);
  if (lock_type >= TL_FIRST_WRITE) {
    if (int error = check_writable()) return error;
    if (!is_sequence()) lock_ = ah::RowLock::kExclusive;
    write_locked_ = true;
    online_build_ = share_->online_build();
  }
  session_->enter_statement();
  choose_layout();
  return 0;
}

// Where the statement finds the table: a snapshot that is older than its move, where it was. What the
// transaction changes stands where the table is now, so from then on plain reads at that snapshot are refused
// (begin_reading()).
void ha_atoll::choose_layout() {
  if (newest_layout_) layout_ = std::move(newest_layout_);
  const uint32_t table_id = layout_->def().id;
  if (!layout_->former() || !is_newer_than_snapshot(layout_->def().readable_from.number)) return;
  if (write_locked_) session_->note_change_of_moved(table_id);
  if (locking() || session_->has_changed_moved(table_id)) return;
  newest_layout_ = std::move(layout_);
  layout_ = newest_layout_->former();
}

// HANDLER ... OPEN keeps the table open between statements, without locks: each READ is a consistent read.
void ha_atoll::init_table_handle_for_HANDLER() {
  // The search key of the last READ binds this one no more, and what it read ahead is past; TEMPORARY tables
  // are not reset() between the two.
  close_cursor();
  bounds_ = {};
  batch_.restart();
  session_ = ah::Session::of(ha_thd(), true);
  session_->enter_statement();
  lock_ = ah::RowLock::kNone;
  write_locked_ = false;
  choose_layout();
}

int ha_atoll::check_writable() {
  if (is_temporary()) return 0;
  if (opt_readonly && !(ha_thd()->security_ctx->master_access & PRIV_IGNORE_READ_ONLY) &&
      !ha_thd()->slave_thread)
    return 0;                                        // the server refuses by itself
  const Status status = atoll::plugin::may_write();  // fenced, or atoll_read_only
  return status.ok() ? 0 : fail(status);
}

txn::ReadAt ha_atoll::read_at() const {
  return locking() || is_sequence() ? txn::ReadAt::kLatest : txn::ReadAt::kSnapshot;
}

txn::LockWait ha_atoll::lock_wait() const {
  return {skip_locked_ ? 0 : atoll::plugin::lock_wait_timeout_s(ha_thd()) * 1000};
}

// Takes the row lock the statement needs. Remembers whether it is new, for unlock_row().
Status ha_atoll::lock_row(std::string_view key, ah::RowLock mode, bool *waited) {
  return lock_row(key, mode, lock_wait(), waited);
}

Status ha_atoll::lock_row(std::string_view key, ah::RowLock mode, const txn::LockWait &wait, bool *waited) {
  txn::LockTable *locks = atoll::plugin::instance()->transactions->locks();
  txn::LockOwner *owner = transaction()->lock_owner();
  const txn::LockKey lock_key{layout_->family()->id(), key};
  const txn::LockMode lock_mode =
      mode == ah::RowLock::kShared ? txn::LockMode::kShared : txn::LockMode::kExclusive;
  if (is_temporary()) {
    current_lock_is_new_ = false;
    return Status::Ok();
  }
  const size_t held = owner->locks_held();
  Status status = locks->lock(owner, lock_key, lock_mode, wait, waited);
  current_lock_is_new_ = status.ok() && owner->locks_held() > held;
  return status;
}

// Locks the row, then delivers its newest version. `seen` is what the cursor read: it is the newest version
// when nothing was committed since the cursor was opened.
int ha_atoll::lock_and_fetch(const std::string &primary_key, std::string_view seen, bool seen_is_row,
                             uchar *record, bool *found) {
  bool waited = false;
  const Status status =
      cursor_positioned_ ? lock_or_peek(primary_key, &waited) : lock_row(primary_key, lock_, &waited);
  if (status.code() == Code::kLockTimeout && skip_locked_) return 0;
  if (!status.ok()) return fail(status);
  if (Status unchanged = check_snapshot(primary_key); !unchanged.ok()) return fail(unchanged);
  const uint64_t newest =
      atoll::plugin::instance()->database->db(layout_->family()->side())->GetLatestSequenceNumber();
  const bool own_writes = transaction()->write_count() != cursor_writes_;
  if (seen_is_row && !waited && !own_writes && newest == cursor_sequence_) {
    int error = 0;
    const bool unchecked = protects_ranges() || atoll::codec::is_large_row(seen);
    if (unchecked && may_refuse_row() && !passes_predicate(primary_key, seen, &error)) return error;
    *found = true;
    row_buffer_.assign(seen);
    return unpack_row(row_buffer_, record);
  }
  return fetch_row(primary_key, record, found);
}

void ha_atoll::try_semi_consistent_read(bool yes) {
  const bool allowed = yes && !session_->snapshot_is_shared_by_statements() && !is_temporary();
  semi_consistent_ = allowed ? SemiConsistent::kAllowed : SemiConsistent::kOff;
}

// A row that the server has not asked for again by the next search is not wanted: backwards it drops what is
// outside of a range without a word (QUICK_SELECT_DESC). Nor does it then ask again for the one row of a
// unique key, which an UPDATE would pass by: that is locked at once.
void ha_atoll::begin_search(bool for_one_row) {
  if (semi_consistent_ != SemiConsistent::kOff)
    semi_consistent_ = for_one_row ? SemiConsistent::kAgain : SemiConsistent::kAllowed;
}

// Locks a row that a scan has come to. A semi-consistent read that finds it locked takes it as it is
// committed.
Status ha_atoll::lock_or_peek(std::string_view key, bool *waited) {
  if (semi_consistent_ != SemiConsistent::kAllowed) {
    if (semi_consistent_ == SemiConsistent::kAgain) semi_consistent_ = SemiConsistent::kAllowed;
    return lock_row(key, lock_, waited);
  }
  const Status status = lock_row(key, lock_, txn::LockWait{0}, waited);
  if (status.code() != Code::kLockTimeout) return status;
  semi_consistent_ = SemiConsistent::kReturned;
  *waited = true;  // somebody is changing the row: what the cursor saw may be old
  return Status::Ok();
}

// atoll_snapshot_isolation: a row that another transaction has changed since the snapshot may not be changed.
Status ha_atoll::check_snapshot(const std::string &primary_key) {
  if (!atoll::plugin::snapshot_isolation(ha_thd()) || !protects_ranges() || !transaction()->has_snapshot())
    return Status::Ok();
  rocksdb::PinnableSlice seen, newest;
  const Status before = transaction()->get(layout_->family(), primary_key, txn::ReadAt::kSnapshot, &seen);
  const Status now = transaction()->get(layout_->family(), primary_key, txn::ReadAt::kLatest, &newest);
  if (before.code() == now.code() && (!now.ok() || seen == newest)) return Status::Ok();
  return Status(Code::kDeadlock, "the row was changed after this transaction's snapshot");
}

// The row just read did not match: under READ COMMITTED its lock goes, unless an earlier statement took it.
void ha_atoll::unlock_row() {
  if (semi_consistent_ == SemiConsistent::kReturned) {
    semi_consistent_ = SemiConsistent::kAllowed;
    return;
  }
  // A plain read has locked nothing: the newest lock is of a statement before it.
  if (!locking() || !current_lock_is_new_ || session_->snapshot_is_shared_by_statements()) return;
  atoll::plugin::instance()->transactions->locks()->unlock(
      transaction()->lock_owner(), txn::LockKey{layout_->family()->id(), current_primary_key_});
  current_lock_is_new_ = false;
}
