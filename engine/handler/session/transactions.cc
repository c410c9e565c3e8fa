// Handlerton callbacks of transactions: commit, rollback, savepoints, two-phase commit, XA.
//
// Two-phase commit (with the binary log, or another engine): prepare() makes the transaction durable. Then
// the server puts the commits in order and calls commit_ordered(), which only makes the changes visible. Last
// it calls commit(), which waits for the bucket if atoll_durability asks for that. In a one-phase commit,
// commit() does all of this. commit_order.h says how the workers of a replica share syncs.
#include "handler/server.h"

#include <log.h>
#include <mysqld.h>

#include <utility>

#include "base/bytes.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/messages/reason_first.h"
#include "engine/running.h"
#include "handler/server/callback.h"
#include "handler/server/compat/participant.h"
#include "handler/session/commit_mark.h"
#include "handler/session/commit_order.h"
#include "handler/session/coordinator_log.h"
#include "handler/server/error_map.h"
#include "handler/handlerton.h"
#include "handler/session/session.h"
#include "handler/session/transactions.h"

// Exported by the server for storage engines, declared by none of its headers. Source: sql/sql_class.cc.
extern "C" int thd_rpl_deadlock_check(MYSQL_THD thd, MYSQL_THD other_thd);
extern "C" int thd_deadlock_victim_preference(const MYSQL_THD thd, const MYSQL_THD other_thd);

namespace atoll::handler {
namespace {

// Results of commit_by_xid and rollback_by_xid. Source: X/Open XA specification, section 6 (return codes).
constexpr int kXaOk = 0;
constexpr int kXaResourceManagerError = -3;
constexpr int kXaUnknownXid = -4;

// Whether only a statement inside a transaction ends, and not the transaction itself.
bool is_statement_end(THD *thd, bool all) {
  return !all && thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN) != 0;
}

std::string xid_bytes(const XID &xid) {
  std::string bytes(reinterpret_cast<const char *>(&xid.formatID), sizeof xid.formatID);
  bytes.push_back(static_cast<char>(xid.gtrid_length));
  bytes.push_back(static_cast<char>(xid.bqual_length));
  bytes.append(xid.data, static_cast<size_t>(xid.gtrid_length + xid.bqual_length));
  return bytes;
}

// Reverses xid_bytes(). Returns false if `bytes` does not come from xid_bytes().
bool xid_from_bytes(const std::string &bytes, XID *xid) {
  const size_t header = sizeof xid->formatID + 2;
  if (bytes.size() < header) return false;
  long format;
  memcpy(&format, bytes.data(), sizeof format);
  const long gtrid = static_cast<uint8_t>(bytes[sizeof format]);
  const long bqual = static_cast<uint8_t>(bytes[sizeof format + 1]);
  if (bytes.size() != header + gtrid + bqual || gtrid + bqual > MYSQL_XIDDATASIZE) return false;
  xid->set(format, bytes.data() + header, gtrid, bytes.data() + header + gtrid, bqual);
  return true;
}

Status sync_log(Session::Left *left) {
  if (!std::exchange(left->sync, false)) return Status::Ok();
  count_work(WorkKind::kLogSyncs);
  return engine::running()->database()->sync_wal();
}

// Called before the transaction is written. While the bucket cannot be reached, the transaction waits here:
// if KILL or max_statement_time ends this wait, the transaction is rolled back and can be repeated.
Status wait_for_room(Session *session) {
  txn::Transaction *transaction = session->transaction();
  if (transaction->is_prepared() || !transaction->has_writes(lsm::Side::kMain)) return Status::Ok();
  return engine::running()->gate().before_commit(transaction->is_spilled());
}

// Reports a commit or prepare that failed before it wrote anything. The client gets the error of a killed
// query if KILL or max_statement_time has ended the wait, else the reason. The server adds error 1180 with
// the number that this function returns.
int refuse(THD *thd, const Status &status) {
  const int error = report(thd, status);
  if (status.code() != Code::kInterrupted)
    my_printf_error(ER_ERROR_DURING_COMMIT, "ATOLL: %s", MYF(0), reason_first(status.message()).c_str());
  else if (thd->killed != NOT_KILLED)
    thd->send_kill_message();
  else
    my_error(ER_STATEMENT_TIMEOUT, MYF(0));
  return error;
}

int fail_commit(THD *thd, const Status &status) {
  const int error = report(thd, status);
  my_printf_error(ER_ERROR_DURING_COMMIT, "ATOLL: %s", MYF(0), reason_first(status.message()).c_str());
  return error;
}

// Reports a commit that is done on local disk, but whose wait for the bucket has failed. The client must know
// that from the error number: after error 1180 the transaction is rolled back, and programs may repeat it.
// The server itself never reports the number 1183.
int report_done_without_bucket(THD *thd, const Status &status) {
  const int error = report(thd, status);
  my_printf_error(ER_ERROR_DURING_CHECKPOINT, "ATOLL: %s", MYF(0), status.message());
  return error;
}

int commit(THD *thd, bool all) {
  Session *session = Session::of(thd, false);
  if (session == nullptr || !session->has_transaction()) return 0;
  if (is_statement_end(thd, all)) {
    session->end_statement();
    return 0;
  }
  if (Status room = wait_for_room(session); !room.ok()) {
    session->rollback();
    return refuse(thd, room);
  }
  Session::Left left;
  Status status = session->commit(&left);
  const bool may_wake_before_sync = next_commits_are_ours(thd) && !TwoPhaseCommit::is_under_way();
  if (status.ok() && !may_wake_before_sync) status = sync_log(&left);
  // Wakes the replica's worker whose commit waits for this one. That worker may go on once this commit is
  // visible and has released its locks. If the worker went on earlier, its commit could become visible before
  // this one. From here on, all such workers wait for the disk and the bucket at the same time. After a
  // failure, the server itself informs the waiting workers; if the sync fails, no later commit succeeds.
  if (status.ok()) thd_wakeup_subsequent_commits(thd, 0);
  if (status.ok()) status = sync_log(&left);
  if (!status.ok()) return fail_commit(thd, status);
  if (left.position != 0) status = engine::running()->gate().after_commit(left.position);
  if (status.ok()) return 0;
  return status.code() == Code::kFenced ? fail_commit(thd, status) : report_done_without_bucket(thd, status);
}

// Called when commit() throws. The transaction must end here, because after a commit the server does not ask
// the engine about it again.
int commit_is_interrupted(const Status &status) noexcept {
  if (Session *session = Session::of(current_thd, false)) session->abandon();
  (void)fails_by_code(status);
  return 1;
}

int rollback_is_interrupted(const Status &status) noexcept {
  if (Session *session = Session::of(current_thd, false)) session->abandon();
  return fails_by_code(status);
}

int rollback(THD *thd, bool all) {
  Session *session = Session::of(thd, false);
  if (session == nullptr) return 0;
  if (session->was_interrupted()) {
    session->abandon();
    return 0;
  }
  if (is_statement_end(thd, all)) {
    Status status = session->rollback_statement();
    return status.ok() ? 0 : report(thd, status);
  }
  session->rollback();
  return 0;
}

// XA PREPARE releases what InnoDB releases. The server's own two-phase commit releases nothing, because the
// commit follows at once. Under SERIALIZABLE the transaction has promised that what it read does not change
// before it ends. A replica applies only changes; the primary has let other transactions change and commit
// whatever these do not touch. So a replica's transaction may not keep them waiting: they can be applied
// before the XA COMMIT.
txn::KeptLocks locks_kept_by_prepare(THD *thd) {
  if (thd_sql_command(thd) != SQLCOM_XA_PREPARE) return txn::KeptLocks::kAll;
  if (thd->slave_thread) return txn::KeptLocks::kWritten;
  return thd_tx_isolation(thd) == ISO_SERIALIZABLE ? txn::KeptLocks::kAll : txn::KeptLocks::kExclusive;
}

int prepare(THD *thd, bool all) {
  Session *session = Session::of(thd, false);
  if (session == nullptr || !session->has_transaction()) return 0;
  if (is_statement_end(thd, all)) {
    session->end_statement();
    return 0;
  }
  XID xid;
  thd_get_xid(thd, reinterpret_cast<MYSQL_XID *>(&xid));
  // The server decides at its start about the transactions that it has prepared for itself.
  const bool is_users = xid.get_my_xid() == 0;
  // The files of a spilled transaction are only on this machine, but XA COMMIT may come on another machine.
  Status status;
  if (session->transaction()->is_spilled() && is_users)
    status = Status(
        Code::kInvalid,
        "an XA transaction larger than half of atoll_transaction_memory cannot be prepared; raise it, or "
        "split the transaction");
  else
    status = wait_for_room(session);
  if (status.ok()) status = session->prepare(xid_bytes(xid), !is_users, locks_kept_by_prepare(thd));
  return status.ok() ? 0 : refuse(thd, status);
}

void commit_ordered(THD *thd, bool) {
  if (Session *session = Session::of(thd, false)) session->commit_ordered();
}

// Answers the request even after an error, because the server counts the answers of the engines.
void commit_checkpoint_request(void *cookie) {
  const Status status = guarded(
      [] { return engine::running() == nullptr ? Status::Ok() : engine::running()->database()->sync_wal(); });
  if (!status.ok()) is_logged(status);
  commit_checkpoint_notify_ha(cookie);
}

// has_undecided_log() when the server had not yet opened its binary log. If no log decides, the server aborts
// when it finds prepared transactions.
bool a_log_decides = false;

// The server calls this until it returns fewer than `length` XIDs. Each call continues after the last XID of
// the call before.
int recover(XID *xids, uint length) {
  static size_t cursor = 0;
  static bool first_call = true;
  if (std::exchange(first_call, false)) commit_decided_transactions();
  if (engine::running() == nullptr || length == 0) return 0;
  if (cursor == 0) roll_back_undecided(engine::running());
  const std::vector<std::string> all = engine::running()->transactions()->prepared_xids();
  uint count = 0;
  while (cursor < all.size() && count < length)
    if (xid_from_bytes(all[cursor++], &xids[count])) count++;
  if (count < length) cursor = 0;
  return static_cast<int>(count);
}

// While the server starts, no client waits for these commits, so this function does not wait for the bucket.
// If such a commit was acknowledged at all, it was by the former process. The first commit of this process
// waits until the bucket has them.
Status after_commit_by_xid(uint64_t position) {
  if (mysqld_server_started) return engine::running()->gate().after_commit(position);
  engine::running()->note_recovered();
  return Status::Ok();
}

int finish_by_xid(XID *xid, bool commit_it) {
  if (engine::running() == nullptr) return kXaResourceManagerError;
  auto transaction = engine::running()->transactions()->take_prepared(xid_bytes(*xid));
  if (!transaction) return kXaUnknownXid;
  const lsm::CommitMark mark = mark_by_xid(current_thd);
  transaction->set_mark(mark);
  Status status = commit_it ? transaction->commit_prepared(engine::running()->settings().flush_at_commit())
                            : transaction->rollback_prepared();
  if (status.ok() && commit_it) {
    engine::running()->gate().note_commit(mark);
    status = after_commit_by_xid(transaction->commit_position());
  }
  if (status.ok()) return kXaOk;
  log_error(status.with("finishing the prepared transaction " + xid_text(xid_bytes(*xid))).message());
  return kXaResourceManagerError;
}

int commit_by_xid(XID *xid) { return finish_by_xid(xid, true); }
int rollback_by_xid(XID *xid) { return finish_by_xid(xid, false); }

int savepoint_set(THD *thd, void *slot) {
  Session *session = Session::of(thd, true);
  if (session == nullptr) return HA_ERR_INTERNAL_ERROR;
  // The savepoint of a trigger or a stored function ends before the statement that calls it. So that of the
  // statement must come first, even if the statement has not written yet.
  if (thd->in_sub_stmt) session->before_write();
  *static_cast<size_t *>(slot) = session->set_savepoint();
  return 0;
}

int savepoint_rollback(THD *thd, void *slot) {
  Session *session = Session::of(thd, false);
  if (session == nullptr) return 0;
  Status status = session->rollback_to_savepoint(*static_cast<size_t *>(slot));
  return status.ok() ? 0 : report(thd, status);
}

// ROLLBACK TO SAVEPOINT keeps the row locks, and the table of a row lock must not be dropped. So the server
// may release the metadata locks that were taken since the savepoint only if the transaction has no row
// locks.
bool savepoint_rollback_can_release_mdl(THD *thd) {
  Session *session = Session::of(thd, false);
  return session == nullptr || !session->has_transaction() ||
         session->transaction()->lock_owner()->locks_held() == 0;
}

// RELEASE SAVEPOINT also releases all later savepoints. SAVEPOINT with a name that is in use releases only
// the older savepoint of this name; the savepoints that were set after it stay.
int savepoint_release(THD *thd, void *slot) {
  Session *session = Session::of(thd, false);
  if (session == nullptr) return 0;
  const size_t number = *static_cast<size_t *>(slot);
  if (thd_sql_command(thd) == SQLCOM_SAVEPOINT)
    session->forget_savepoint(number);
  else
    session->release_savepoint(number);
  return 0;
}

// Whether another engine has given this warning already, because one warning is enough. The server asks every
// engine for a snapshot, even if the session uses none of its tables. The list may also have other warnings,
// of the statement before.
bool was_warned_of_snapshot(THD *thd) {
  Diagnostics_area::Sql_condition_iterator warnings = thd->get_stmt_da()->sql_conditions();
  while (const Sql_condition *warning = warnings++)
    if (warning->get_sql_errno() == HA_ERR_UNSUPPORTED &&
        strstr(warning->get_message_text(), "CONSISTENT SNAPSHOT") != nullptr)
      return true;
  return false;
}

int start_consistent_snapshot(THD *thd) {
  if (engine::running() == nullptr) return 0;
  Session *session = Session::of(thd, true);
  session->transaction();
  trans_register_ha(thd, true, own_handlerton(), 0);
  if (session->snapshot_is_shared_by_statements())
    session->open_read_view();
  else if (!was_warned_of_snapshot(thd))
    push_warning(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_UNSUPPORTED,
                 "ATOLL: WITH CONSISTENT SNAPSHOT needs REPEATABLE READ; the phrase is ignored");
  return 0;
}

int close_connection(THD *thd) {
  Session *session = Session::of(thd, false);
  if (session == nullptr) return 0;
  if (session->has_transaction()) {
    if (session->transaction()->is_prepared())
      session->detach();
    else
      session->rollback();
  }
  delete session;
  thd_set_ha_data(thd, own_handlerton(), nullptr);
  return 0;
}

void kill_query(handlerton *, THD *thd, enum thd_kill_levels) {
  note_kill();
  if (Session *session = Session::of(thd, false)) session->kill();
}

bool flush_logs(handlerton *) {
  if (engine::running() == nullptr) return false;
  Status status = engine::running()->database()->sync_wal();
  if (!status.ok()) log_error(status.with("FLUSH LOGS").message());
  return !status.ok();
}

}  // namespace

void roll_back_undecided(engine::Engine *engine) {
  if (!engine->was_restored() || a_log_decides) return;
  size_t count = 0;
  for (const std::string &bytes : engine->transactions()->prepared_xids()) {
    XID xid;
    if (!xid_from_bytes(bytes, &xid) || xid.get_my_xid() == 0) continue;
    auto transaction = engine->transactions()->take_prepared(bytes);
    if (!transaction) continue;
    if (Status status = transaction->rollback_prepared(); !status.ok())
      log_error(status.with("rolling back an undecided transaction").message());
    count++;
  }
  if (count > 0)
    log_warning("rolled back " + std::to_string(count) +
                " transactions that the lost server had prepared "
                "but not committed in the bucket; none of them was promised to be there");
}

std::string xid_text(const std::string &bytes) {
  const auto quoted = [](std::string_view part) {
    std::string text = "'";
    for (const char c : part) {
      if (c < ' ' || c > '~' || c == '\'' || c == '\\') return "X'" + to_hex(part) + "'";
      text.push_back(c);
    }
    return text + "'";
  };
  XID xid;
  if (!xid_from_bytes(bytes, &xid)) return "X'" + to_hex(bytes) + "'";
  const auto gtrid = static_cast<size_t>(xid.gtrid_length), bqual = static_cast<size_t>(xid.bqual_length);
  std::string text = quoted({xid.data, gtrid});
  if (bqual != 0 || xid.formatID != 1) text += "," + quoted({xid.data + gtrid, bqual});
  if (xid.formatID != 1) text += "," + std::to_string(xid.formatID);
  return text;
}

void watch_lock_waits(txn::LockTable *locks) {
  locks->set_before_wait([](txn::LockOwner *waiter, void *holder) {
    THD *waiting = static_cast<THD *>(waiter->user());
    if (waiting != nullptr && holder != nullptr) thd_rpl_deadlock_check(waiting, static_cast<THD *>(holder));
  });
  // A replica stops after slave_transaction_retries deadlocks of one transaction. So the worker that must
  // commit first must not be chosen as the victim again and again because it has few locks.
  locks->set_victim_preference([](void *user, void *other) {
    return thd_deadlock_victim_preference(static_cast<THD *>(user), static_cast<THD *>(other));
  });
}

void fill_transaction_callbacks(handlerton *hton) {
  a_log_decides = has_undecided_log();
  hton->savepoint_offset = sizeof(size_t);
  hton->commit = guarded_participant<commit, commit_is_interrupted>;
  hton->rollback = guarded_participant<rollback, rollback_is_interrupted>;
  hton->prepare = guarded_participant<prepare, fails_by<1>>;
  hton->commit_ordered = guarded_participant<commit_ordered, is_logged>;
  hton->commit_checkpoint_request = guarded_function<commit_checkpoint_request, is_logged>;
  hton->recover = guarded_participant<recover, is_logged_by<0>>;
  hton->commit_by_xid = guarded_participant<commit_by_xid, is_logged_by<kXaResourceManagerError>>;
  hton->rollback_by_xid = guarded_participant<rollback_by_xid, is_logged_by<kXaResourceManagerError>>;
  hton->savepoint_set = guarded_participant<savepoint_set, fails_by_code>;
  hton->savepoint_rollback = guarded_participant<savepoint_rollback, fails_by_code>;
  hton->savepoint_rollback_can_release_mdl =
      guarded_participant<savepoint_rollback_can_release_mdl, is_logged_by<false>>;
  hton->savepoint_release = guarded_participant<savepoint_release, fails_by_code>;
  hton->start_consistent_snapshot = guarded_participant<start_consistent_snapshot, fails_by_code>;
  hton->close_connection = guarded_participant<close_connection, is_logged_by<0>>;
  hton->kill_query = guarded_function<kill_query, is_logged>;
  hton->flush_logs = guarded_function<flush_logs, is_logged_by<true>>;
}

}  // namespace atoll::handler
