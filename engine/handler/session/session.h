// The engine's data of one connection: its transaction and the state of the running statement. The server
// keeps the object in the THD's slot for this engine. It is made when the connection first uses the engine.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/work.h"
#include "catalog/catalog.h"
#include "engine/settings.h"
#include "engine/views.h"
#include "handler/foreign/violation.h"
#include "handler/session/commit_mark.h"
#include "handler/session/commit_order.h"
#include "table/statistics/row_changes.h"
#include "txn/transaction.h"

class THD;
namespace atoll::lsm {
struct SortBudget;
}

namespace atoll::table {
class OnlineBuild;
}

namespace atoll::handler {

// Lives from the connection's first use of the engine to its end. Threads: the connection's, except
// where a comment says otherwise.
class Session {
 public:
  explicit Session(THD *thd) : thd_(thd) {}
  ~Session();

  // Returns the session of `thd`; makes one if there is none and `create` is true, else returns nullptr. From
  // now on the work of the calling thread is counted for this session, because every statement calls this
  // function before it reads or writes.
  static Session *of(THD *thd, bool create);

  // Returns the running transaction; begins one when there is none.
  txn::Transaction *transaction();
  bool has_transaction() const { return transaction_ != nullptr; }

  // Registers the statement (and the transaction, outside autocommit) with the server.
  void enter_statement();
  // Takes the snapshot for consistent reads, unless the transaction has one already.
  void open_read_view();
  // Under READ COMMITTED: releases the snapshot at the end of a statement.
  void end_read_view();
  // On a reader: the view that the transaction reads, under READ COMMITTED the statement. nullptr: it has
  // read nothing yet.
  const engine::ViewPtr &view() const { return view_; }
  // From now on view() returns `view`, until the transaction or, under READ COMMITTED, the statement ends.
  void hold_view(engine::ViewPtr view) { view_ = std::move(view); }
  // Sets the statement savepoint before the first write of the statement.
  void before_write();

  // Called when a statement inside a transaction has ended. rollback_statement() also undoes its changes.
  void end_statement();
  Status rollback_statement();
  // What commit() leaves for its caller to do.
  struct Left {
    bool sync = false;      // call Database::sync_wal()
    uint64_t position = 0;  // if not 0, pass it to CommitGate::after_commit()
  };
  // The functions from here to detach() prepare or end the transaction.
  Status prepare(const std::string &xid, bool is_decided_at_start, txn::KeptLocks kept);
  void commit_ordered();
  // Makes the changes visible and releases the locks. The caller makes them durable, as *left says.
  Status commit(Left *left);
  void rollback();
  // Notes that an exception has interrupted a change of the transaction, which now can only be ended by
  // abandon().
  void note_exception() { was_interrupted_ = transaction_ != nullptr; }
  bool was_interrupted() const { return was_interrupted_; }
  // Ends the transaction after an exception: rolls it back, or, if it is prepared, leaves it to the recovery
  // at the next start. Never throws.
  void abandon() noexcept;
  // Gives a prepared XA transaction to the transaction manager, because it outlives the connection.
  void detach();

  size_t set_savepoint();
  Status rollback_to_savepoint(size_t number);
  void release_savepoint(size_t number);
  void forget_savepoint(size_t number);

  // Wakes a lock wait of this session. Any thread.
  void kill();

  // Notes the next AUTO_INCREMENT value of a table, which the commit must store together with the rows of
  // this transaction.
  void note_auto_increment(uint32_t table_id, uint64_t next);

  // Remembers that the transaction has logged a change for `build`. If it is possible that the transaction
  // was committed and its log records were rolled back, or the other way round, the session makes the build
  // fail.
  void note_online_build(const std::shared_ptr<table::OnlineBuild> &build) { online_builds_.insert(build); }

  // Notes that the running statement has changed the table and added `rows` rows to it; negative: removed
  // rows; 0: changed rows. A rollback subtracts them from the row count of the table.
  void count_rows(uint32_t table_id, int64_t rows) { row_changes_.add(table_id, rows); }

  // Removes the rows of the TEMPORARY table `def`, which was dropped. If the running transaction has written
  // rows of TEMPORARY tables, its commit stores them, so the rows are removed when it has ended.
  Status drop_temporary(const catalog::TablePtr &def);

  // Notes that the transaction may have changed a table that the mover has moved after the transaction's
  // snapshot was taken.
  void note_change_of_moved(uint32_t table_id) { changed_moved_.insert(table_id); }
  bool has_changed_moved(uint32_t table_id) const { return changed_moved_.contains(table_id); }

  // The memory that the running statement may use for sorting. The copies of all partitions share it.
  std::shared_ptr<lsm::SortBudget> sort_budget();

  // The settings of the running statement. Read from the connection once per statement, so a loop can call
  // this function for each row.
  const engine::StatementSettings &settings();

  bool snapshot_is_shared_by_statements() const;  // true under REPEATABLE READ and above
  Work *work() const { return work_.get(); }
  int open_tables = 0;  // how many tables the running statement has locked (external_lock)
  // The index of the last duplicate. The session holds it and not the handler, because for a partitioned
  // table the server may ask another partition than the one that found the duplicate.
  unsigned duplicate_index = ~0U;
  // Why a constraint has refused the last row.
  ForeignViolation violation;

 private:
  void forget_former_kill();
  void remove_dropped_temporary() noexcept;
  void keep_statement_savepoint_below(size_t number);
  Status undo_to(size_t savepoint);
  void set_mark(const lsm::CommitMark &mark);
  void note_commit(const Status &outcome) const;
  Status commit_prepared(bool sync);
  Status finish(const Status &outcome, Left *left);
  void spoil_online_builds(const char *reason);
  Status write_auto_increments();
  void reset();

  const OwnWork work_;
  THD *thd_;
  engine::StatementSettings settings_;
  int64_t settings_read_by_ = -1;  // the server's number of the statement that read settings_
  std::weak_ptr<lsm::SortBudget> sort_budget_;
  mutable Mutex mutex_;  // guards transaction_ against kill()
  std::unique_ptr<txn::Transaction> transaction_;
  engine::ViewPtr view_;
  bool has_statement_savepoint_ = false;
  size_t statement_savepoint_ = 0;
  bool was_interrupted_ = false;     // an exception has interrupted a change, see note_exception()
  bool committed_in_order_ = false;  // commit_ordered() has tried the commit; ordered_outcome_ is the result
  Status ordered_outcome_;
  TwoPhaseCommit two_phase_;
  BinlogWrite before_prepare_;
  lsm::CommitMark mark_;
  std::map<uint32_t, uint64_t> auto_increments_;
  std::set<std::shared_ptr<table::OnlineBuild>> online_builds_;
  std::vector<catalog::TablePtr> dropped_temporary_;
  std::set<uint32_t> changed_moved_;  // the ids of tables, see note_change_of_moved()
  table::RowChanges row_changes_;
};

}  // namespace atoll::handler
