// See session.h.
#include "handler/server.h"

#include "handler/session/session.h"

#include "base/border/border.h"
#include "base/log.h"
#include "engine/running.h"
#include "handler/session/temporary_rows.h"
#include "handler/handlerton.h"
#include "handler/statistics/open_shares.h"
#include "table/online/online_build.h"

namespace atoll::handler {
namespace {

bool in_multi_statement_transaction(THD *thd) {
  return thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN) != 0;
}

}  // namespace

Session::~Session() = default;

Session *Session::of(THD *thd, bool create) {
  if (engine::running() == nullptr) return nullptr;
  handlerton *hton = own_handlerton();
  auto *session = static_cast<Session *>(thd_get_ha_data(thd, hton));
  if (session == nullptr && create) {
    session = new Session(thd);
    thd_set_ha_data(thd, hton, session);
  }
  set_current_work(session == nullptr ? nullptr : session->work());
  return session;
}

txn::Transaction *Session::transaction() {
  if (!transaction_) {
    auto begun = engine::running()->transactions()->begin(thd_);
    MutexLock guard(mutex_);
    transaction_ = std::move(begun);
  }
  return transaction_.get();
}

void Session::enter_statement() {
  handlerton *hton = own_handlerton();
  if (!transaction_ && thd_tx_isolation(thd_) == ISO_READ_UNCOMMITTED)
    push_warning(thd_, Sql_condition::WARN_LEVEL_NOTE, HA_ERR_UNSUPPORTED,
                 "ATOLL: READ UNCOMMITTED is served as READ COMMITTED");
  transaction();
  forget_former_kill();
  trans_register_ha(thd_, false, hton, 0);
  if (in_multi_statement_transaction(thd_)) trans_register_ha(thd_, true, hton, 0);
}

// A KILL QUERY may have come when the connection was idle, or in a statement that uses no table of ATOLL. The
// server forgets it with that statement, without a call of the engine. A KILL of the present statement is
// first noted in the THD, which is asked last here, so it is not forgotten.
void Session::forget_former_kill() {
  txn::LockTable *const locks = engine::running()->transactions()->locks();
  locks->clear_kill(transaction_->lock_owner());
  if (is_statement_killed(thd_)) locks->kill(transaction_->lock_owner());
}

std::shared_ptr<lsm::SortBudget> Session::sort_budget() {
  std::shared_ptr<lsm::SortBudget> budget = sort_budget_.lock();
  if (!budget) {
    const engine::Engine *engine = engine::running();
    sort_budget_ = budget = engine->database()->sort_budget(engine->settings().sort_memory_bytes());
  }
  return budget;
}

const engine::StatementSettings &Session::settings() {
  if (settings_read_by_ != thd_->query_id) {
    settings_ = engine::running()->statement_settings(thd_);
    settings_read_by_ = thd_->query_id;
  }
  return settings_;
}

bool Session::snapshot_is_shared_by_statements() const {
  return thd_tx_isolation(thd_) >= ISO_REPEATABLE_READ;
}

void Session::open_read_view() {
  transaction()->make_snapshot();
  if (const engine::Views *views = engine::running()->views(); views != nullptr && !view_)
    view_ = views->newest();
}

void Session::end_read_view() {
  transaction()->release_snapshot();
  view_.reset();
}

void Session::before_write() {
  if (has_statement_savepoint_) return;
  statement_savepoint_ = set_savepoint();
  has_statement_savepoint_ = true;
}

void Session::end_statement() {
  if (!transaction_) return;
  if (has_statement_savepoint_) transaction_->release_savepoint(statement_savepoint_);
  has_statement_savepoint_ = false;
  if (!snapshot_is_shared_by_statements()) end_read_view();
  engine::running()->transactions()->locks()->clear_kill(transaction_->lock_owner());
}

Status Session::rollback_statement() {
  if (!transaction_) return Status::Ok();
  Status status;
  if (has_statement_savepoint_) status = undo_to(statement_savepoint_);
  end_statement();
  return status;
}

Status Session::write_auto_increments() {
  engine::Engine *running = engine::running();
  for (auto &[table_id, next] : auto_increments_) {
    next = std::max(next, running->catalog()->auto_increment(table_id));
    ATOLL_RETURN_IF_ERROR(transaction_->put(running->database()->catalog_family(),
                                            catalog::Catalog::auto_increment_key(table_id),
                                            catalog::Catalog::auto_increment_value(next)));
  }
  return Status::Ok();
}

Status Session::prepare(const std::string &xid, bool is_decided_at_start, txn::KeptLocks kept) {
  if (!transaction_) return Status::Ok();
  if (has_statement_savepoint_) transaction_->release_savepoint(statement_savepoint_);
  has_statement_savepoint_ = false;
  ATOLL_RETURN_IF_ERROR(write_auto_increments());
  two_phase_.begin();
  before_prepare_ = BinlogWrite::of(thd_);
  return transaction_->prepare(xid, engine::running()->settings().flush_at_commit(), is_decided_at_start,
                               kept);
}

void Session::set_mark(const lsm::CommitMark &mark) {
  mark_ = mark;
  transaction_->set_mark(mark);
}

// Tells the gate about a successful commit. A transaction that wrote nothing to the log has no position, and
// is left out.
void Session::note_commit(const Status &outcome) const {
  if (outcome.ok() && transaction_->commit_position() != 0) engine::running()->gate().note_commit(mark_);
}

Status Session::commit_prepared(bool sync) {
  set_mark(mark_of_prepared(thd_, before_prepare_));
  const Status outcome = transaction_->commit_prepared(sync);
  note_commit(outcome);
  return outcome;
}

void Session::commit_ordered() {
  if (!transaction_ || !transaction_->is_prepared()) return;
  ordered_outcome_ = commit_prepared(false);
  committed_in_order_ = true;
}

Status Session::commit(Left *left) {
  if (!transaction_) return Status::Ok();
  if (committed_in_order_) return finish(ordered_outcome_, left);
  const bool sync = engine::running()->settings().flush_at_commit();
  if (transaction_->is_prepared()) return finish(commit_prepared(sync), left);
  set_mark(mark_of_unlogged(thd_));
  Status status = write_auto_increments();
  left->sync = sync && transaction_->has_writes(lsm::Side::kMain);
  if (status.ok()) status = transaction_->commit(false);
  note_commit(status);
  return finish(status, left);
}

// Ends the transaction, whatever the outcome of its commit is.
Status Session::finish(const Status &outcome, Left *left) {
  left->position = transaction_->commit_position();
  if (!outcome.ok())
    spoil_online_builds(
        "a transaction that changed the table could not be committed while the index was built; repeat the "
        "ALTER");
  if (outcome.ok()) {
    for (const auto &[table_id, next] : auto_increments_)
      engine::running()->catalog()->raise_auto_increment(table_id, next);
    note_update_times(row_changes_.counts());
  }
  reset();
  return outcome;
}

void Session::rollback() {
  if (!transaction_) return;
  if (transaction_->is_prepared()) {
    if (Status status = transaction_->rollback_prepared(); !status.ok())
      log_error(status.with("rolling back a prepared transaction").message());
  } else {
    transaction_->rollback();
  }
  take_back_rows(row_changes_.roll_back());
  reset();
}

void Session::abandon() noexcept {
  if (!transaction_) return;
  const bool is_prepared = transaction_->is_prepared();
  guarded_or_nothing([&] {
    spoil_online_builds("a transaction that changed the table ended in an error; repeat the ALTER");
    if (!is_prepared) transaction_->rollback();
    take_back_rows(row_changes_.roll_back());
  });
  reset();
}

void Session::reset() {
  std::unique_ptr<txn::Transaction> done;
  {
    MutexLock guard(mutex_);
    done = std::move(transaction_);
  }
  remove_dropped_temporary();
  view_.reset();
  has_statement_savepoint_ = false;
  was_interrupted_ = false;
  committed_in_order_ = false;
  ordered_outcome_ = Status::Ok();
  two_phase_.end();
  auto_increments_.clear();
  online_builds_.clear();
  changed_moved_.clear();
  row_changes_.clear();
}

void Session::spoil_online_builds(const char *reason) {
  for (const std::shared_ptr<table::OnlineBuild> &build : online_builds_) build->spoil(reason);
}

void Session::detach() {
  spoil_online_builds(
      "an XA transaction that changed the table was left prepared by its connection; finish it (XA "
      "RECOVER lists it), then repeat the ALTER");
  std::unique_ptr<txn::Transaction> prepared;
  {
    MutexLock guard(mutex_);
    prepared = std::move(transaction_);
  }
  if (prepared) {
    prepared->lock_owner()->set_user(nullptr);  // the connection goes away
    engine::running()->transactions()->detach_prepared(std::move(prepared));
  }
  reset();
}

size_t Session::set_savepoint() {
  const size_t number = transaction()->set_savepoint();
  row_changes_.note_savepoint(number);
  return number;
}

Status Session::rollback_to_savepoint(size_t number) {
  keep_statement_savepoint_below(number);
  return undo_to(number);
}

Status Session::undo_to(size_t savepoint) {
  take_back_rows(row_changes_.roll_back_to(savepoint));
  return transaction()->rollback_to_savepoint(savepoint);
}

void Session::release_savepoint(size_t number) {
  keep_statement_savepoint_below(number);
  transaction()->release_savepoint(number);
}

// A trigger or a stored function can set savepoints above the savepoint of the statement which calls it, and
// end them while the statement goes on.
void Session::keep_statement_savepoint_below(size_t number) {
  if (number <= statement_savepoint_) has_statement_savepoint_ = false;
}

void Session::forget_savepoint(size_t number) { transaction()->forget_savepoint(number); }

Status Session::drop_temporary(const catalog::TablePtr &def) {
  if (!transaction_ || !transaction_->has_writes(lsm::Side::kTemp)) return remove_temporary_rows(*def);
  dropped_temporary_.push_back(def);
  return Status::Ok();
}

void Session::remove_dropped_temporary() noexcept {
  for (const catalog::TablePtr &dropped : dropped_temporary_) {
    const Status status = guarded([&] { return remove_temporary_rows(*dropped); });
    if (!status.ok())
      guarded_or_nothing([&] { log_error(status.with("removing the rows of a TEMPORARY table").message()); });
  }
  dropped_temporary_.clear();
}

void Session::kill() {
  MutexLock guard(mutex_);
  if (transaction_) engine::running()->transactions()->locks()->kill(transaction_->lock_owner());
}

void Session::note_auto_increment(uint32_t table_id, uint64_t next) {
  uint64_t &noted = auto_increments_[table_id];
  noted = std::max(noted, next);
}

}  // namespace atoll::handler
