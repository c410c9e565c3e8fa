// ha_atoll: statements and their lock modes. Row locks: table/locks/row_locks.h.
#include "handler/ha_atoll.h"

#include "engine/running.h"
#include "handler/server/error_map.h"
#include "handler/ddl/definition.h"
#include "handler/ddl/prepared_writers.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace at = atoll::table;

// The server exports these functions for engines, but no header declares them.
extern "C" {
int thd_binlog_format(const MYSQL_THD thd);
bool thd_binlog_filter_ok(const MYSQL_THD thd);
bool thd_sqlcom_can_generate_row_events(const MYSQL_THD thd);
}

namespace {

// Whether LOCK TABLES or FLUSH TABLES ... WITH READ LOCK has locked the tables that the session may use.
bool is_under_table_locks(const THD *thd) {
  return thd->locked_tables_mode == LTM_LOCK_TABLES ||
         thd->locked_tables_mode == LTM_PRELOCKED_UNDER_LOCK_TABLES;
}

// Whether a statement locks the rows of a table that it only reads, without FOR UPDATE or the like. Under
// SERIALIZABLE every statement in a transaction does, except under LOCK TABLES, where no other session can
// change the table. Under REPEATABLE READ a statement does if it writes what it reads to another table: the
// binary log may hold only the text of the statement, and a replica must read the same rows. LOCK TABLES and
// FLUSH TABLES ... WITH READ LOCK read nothing themselves.
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
    case SQLCOM_LOCK_TABLES:
    case SQLCOM_FLUSH:
    case SQLCOM_ALTER_TABLE:  // no other statement can write the table
    case SQLCOM_OPTIMIZE:
    case SQLCOM_CHECKSUM:
    case SQLCOM_ANALYZE:
    case SQLCOM_CHECK:
      return false;
    default:
      // TL_READ_NO_INSERT: the read is in a stored function that writes.
      return lock_type == TL_READ_NO_INSERT ||
             (level == ISO_SERIALIZABLE && thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN) &&
              !is_under_table_locks(thd));
  }
}

// Whether the statement can be one that copies the table, or builds indexes from its committed rows.
bool rewrites_table(THD *thd) {
  const enum_sql_command command = thd->lex->sql_command;
  return command == SQLCOM_ALTER_TABLE || command == SQLCOM_CREATE_INDEX || command == SQLCOM_DROP_INDEX;
}

}  // namespace

// Decides how the statement reads this table: at the snapshot, or the latest rows under locks.
THR_LOCK_DATA **ha_atoll::store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type) noexcept {
  if (lock_type != TL_IGNORE) choose_mode(thd, lock_type);
  return to;
}

void ha_atoll::choose_mode(THD *thd, thr_lock_type lock_type) {
  if (is_sequence()) return;    // the row of a sequence is never locked: see write_apart()
  if (open_table_.is_past()) {  // the past never changes, and its keys are not the present's
    mode()->lock = at::RowLock::kNone;
    mode()->skip_locked = false;
    return;
  }
  mode()->skip_locked = lock_type == TL_READ_SKIP_LOCKED || lock_type == TL_WRITE_SKIP_LOCKED;
  const bool shared = lock_type == TL_READ_WITH_SHARED_LOCKS || lock_type == TL_READ_SKIP_LOCKED;
  if (shared) {
    mode()->lock = at::RowLock::kShared;
  } else if (lock_type >= TL_FIRST_WRITE) {
    mode()->lock = at::RowLock::kExclusive;
  } else {
    mode()->lock = reads_with_locks(thd, lock_type) ? at::RowLock::kShared : at::RowLock::kNone;
  }
}

// Returns true, and raises an error, if the statement can only be logged by rows but binlog_format is
// STATEMENT. The server would refuse the statement a little later without giving the reason.
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
  if (Status status = atoll::engine::ready(); !status.ok()) return fail(status);
  if (lock_type == F_WRLCK && needs_row_logging(thd)) return HA_ERR_LOGGING_IMPOSSIBLE;
  if (lock_type != F_UNLCK && !is_temporary() && !open_table_.is_past() && rewrites_table(thd)) {
    // The server takes no write lock for an ALTER, and some of its steps must not fail later: it changes the
    // .frm file before it asks the engine to drop a partition.
    if (int error = check_writable()) return error;
    if (ah::refuse_for_prepared_writers(layout()->def())) return HA_ERR_LOCK_WAIT_TIMEOUT;
  }
  if (int error = lock_type == F_UNLCK ? 0 : check_past(thd)) return error;
  session_ = ah::Session::of(thd, true);
  if (lock_type == F_UNLCK) {
    reader_.close();
    parallel_.reset();
    mode()->may_change = false;
    set_online_build(nullptr);
    end_foreign();
    mode()->lock = at::RowLock::kNone;
    open_table_.read_newest();
    if (session_->open_tables > 0 && --session_->open_tables == 0 && session_->has_transaction() &&
        !session_->snapshot_is_shared_by_statements())
      session_->end_read_view();
    return 0;
  }
  if (lock_type == F_WRLCK) {
    if (int error = check_writable()) return error;
    if (!is_sequence()) mode()->lock = at::RowLock::kExclusive;
  }
  mode()->may_change = lock_type == F_WRLCK;
  if (mode()->may_change) set_online_build(share_->online_build());
  session_->enter_statement();
  if (int error = choose_layout()) return error;
  session_->open_tables++;
  const Status status = lock_type == F_WRLCK ? begin_foreign() : Status::Ok();
  return status.ok() ? 0 : fail(status);
}

// Called instead of store_lock() and external_lock() for a table that was locked before the statement: by
// LOCK TABLES, or for the statement that has called a stored function. `lock_type` is what this statement
// needs, so a plain SELECT reads at the snapshot, although the table may be locked for writing. An expression
// in a function or trigger, such as SET x = (SELECT ...), is a part of the statement that has called it, and
// locks what that statement has to lock.
int ha_atoll::start_stmt(THD *thd, thr_lock_type lock_type) {
  if (Status status = atoll::engine::ready(); !status.ok()) return fail(status);
  if (int error = check_past(thd)) return error;
  session_ = ah::Session::of(thd, true);
  mode()->may_change = lock_type >= TL_FIRST_WRITE;
  if (mode()->may_change) {
    if (int error = check_writable()) return error;
    set_online_build(share_->online_build());
  }
  const bool is_part_of_caller = thd->lex->sql_command != SQLCOM_SELECT && !is_under_table_locks(thd);
  const bool was_shared = mode()->lock == at::RowLock::kShared;
  choose_mode(thd, lock_type);
  if (is_part_of_caller && was_shared && !locking()) mode()->lock = at::RowLock::kShared;
  session_->enter_statement();
  if (int error = choose_layout()) return error;
  const Status status = mode()->may_change ? begin_foreign() : Status::Ok();
  return status.ok() ? 0 : fail(status);
}

// From now on the statement logs each row change for `build`; nullptr: for no build.
void ha_atoll::set_online_build(std::shared_ptr<atoll::table::OnlineBuild> build) {
  online_build_ = std::move(build);
  writer_.set_log(online_build_.get());
}

// Chooses the layout, and so the column family, by which the statement reads the table. If the transaction's
// snapshot is older than the table's move to its own family, plain reads use the former layout. Locking reads
// and writes always use the present layout. So once the transaction may have changed the table, plain
// reads at that snapshot are refused (RowCursor::begin_reading()). On a reader, chooses the layout of the
// transaction's view.
int ha_atoll::choose_layout() {
  if (bound_view_.is_bound()) {
    std::shared_ptr<const Layout> now;
    const Status status = bound_view_.follow(session_, table, *layout(), &now);
    if (status.code() == Code::kNotFound || status.code() == Code::kInvalid) return HA_ERR_TABLE_DEF_CHANGED;
    if (!status.ok()) return fail(status);
    if (!now) return 0;
    reader_.close();
    parallel_.reset();
    const bool is_first = share_->layout()->def_ptr() != now->def_ptr();
    open_table_.set_layout(std::move(now));
    find_share();
    if (is_first) share_->forget_numbers();
    load_statistics();
    return 0;
  }
  open_table_.read_newest();
  const uint32_t table_id = layout()->def().id;
  if (!layout()->former() || !open_table_.is_newer_than_snapshot(layout()->def().readable_from.number))
    return 0;
  if (mode()->may_change) session_->note_change_of_moved(table_id);
  if (!locking() && !session_->has_changed_moved(table_id)) open_table_.read_former();
  return 0;
}

// HANDLER ... OPEN keeps the table open between statements, without locks. Each READ is a consistent read.
void ha_atoll::init_table_handle_for_HANDLER() {
  // The server does not call reset() for a TEMPORARY table between two READs.
  reader_.begin_again();
  session_ = ah::Session::of(ha_thd(), true);
  session_->enter_statement();
  mode()->lock = at::RowLock::kNone;
  mode()->may_change = false;
  (void)choose_layout();  // after a change of the definition, the server has closed the HANDLER
}

// For a table in a mounted state of the past: refuses an ALTER, which would change the table, and marks every
// other statement as unsafe for statement-based logging, because a replica does not have the table.
int ha_atoll::check_past(THD *thd) {
  if (!open_table_.is_past()) return 0;
  if (rewrites_table(thd)) return fail(ah::past_is_read_only());
  thd->lex->set_stmt_unsafe(LEX::BINLOG_STMT_UNSAFE_SYSTEM_TABLE);
  return 0;
}

int ha_atoll::check_writable() {
  if (is_temporary()) return 0;
  if (open_table_.is_past()) return fail(ah::past_is_read_only());
  if (opt_readonly && !(ha_thd()->security_ctx->master_access & PRIV_IGNORE_READ_ONLY) &&
      !ha_thd()->slave_thread)
    return 0;                                        // the server itself refuses the write
  const Status status = atoll::engine::may_write();  // an error if fenced, or with atoll_read_only
  return status.ok() ? 0 : fail(status);
}

void ha_atoll::try_semi_consistent_read(bool yes) noexcept { row_locks_.allow_semi_consistent(yes); }

// Releases the lock of the row that was read last, because the row did not match.
void ha_atoll::unlock_row() { reader_.give_back_row(); }
