// Makes commits and DDL statements wait for the bucket, as far as atoll_durability demands. Every write that
// the server acknowledges passes through here. How far the bucket is behind is measured in crates/objstore
// (protocol/wal/lag.rs).
//
// KILL, max_statement_time and atoll_lag_wait_timeout end a wait. A commit that has written its changes then
// gets an error, because success would promise that the bucket has them. But the changes stay, and a program
// that repeats the transaction makes them twice. So once a commit has waited for two seconds (an outage,
// bucket_waits.h), every later one waits before it writes anything: when its wait ends early, it is rolled
// back and can be repeated.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "bridge/objstore.h"
#include "engine/settings.h"
#include "lsm/commit_mark.h"
#include "lsm/rows.h"

namespace atoll::engine {

// The gate of one engine, which makes it and owns it.
class CommitGate {
 public:
  // Receives a warning for the statement of the calling thread.
  using Warn = std::function<void(const std::string &message)>;

  // All pointers must stay valid for as long as the gate exists. `store`: nullptr for a reader, whose commits
  // have only TEMPORARY tables and never wait.
  CommitGate(atoll_store *store, lsm::Rows *rows, const Settings *settings, Warn warn)
      : store_(store), rows_(rows), settings_(settings), warn_(std::move(warn)) {}

  // Called before a transaction is written to the log. During an outage, waits until the bucket has caught
  // up. When the upload backlog has no room for finished files, RocksDB can hold writers back, and KILL
  // cannot end that wait. So the transaction waits here instead, where KILL ends the wait. `is_spilled`: true
  // for a spilled transaction, which waits whenever the backlog has no room; others wait only while RocksDB
  // holds writers back, too. Errors: kInterrupted (the statement was killed or has run for
  // max_statement_time), kUnavailable (the bucket did not catch up within atoll_lag_wait_timeout), kFenced.
  // The caller rolls the transaction back.
  Status before_commit(bool is_spilled) const;
  // Called after each commit with its position in the log. Blocks while the bucket lags more than
  // atoll_durability allows. Errors: kUnavailable (the bucket did not catch up within
  // atoll_lag_wait_timeout), kInterrupted (the statement was killed or has run for max_statement_time): in
  // both cases the commit is done, and the message says so; kFenced.
  Status after_commit(uint64_t wal_position) const;
  // Tells the store which commit is now the newest in the log. Each root in the bucket says which commit was
  // the newest when the root was made.
  void note_commit(const lsm::CommitMark &mark) const;
  // Called when a DDL statement is done. With sync, waits until the bucket has the statement's log and a root
  // with its new families and files, because a restore replays log after such a change only over such a root
  // (gate PUB-G8). Waits not longer than atoll_lag_wait_timeout. With async, waits as a commit does, and a
  // bucket that does not catch up causes only a warning: the statement is done, and the commits after it
  // wait. Errors: with sync, as after_commit(); otherwise only kFenced.
  Status after_ddl() const;
  // Waits until the bucket has everything that is on local disk, whatever atoll_durability says. Errors: as
  // after_commit().
  Status publish_all() const;

 private:
  Status wait_in_slices(const std::function<atoll_result(uint32_t timeout_ms)> &wait) const;
  Status lag_message(const char *what_happened) const;

  atoll_store *store_;
  lsm::Rows *rows_;
  const Settings *settings_;
  Warn warn_;
};

}  // namespace atoll::engine
