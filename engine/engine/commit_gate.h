// What a commit and a DDL statement wait for: the bucket, as far as atoll_durability says. Every writer that
// must be acknowledged passes here; how far the bucket is behind is known to crates/objstore
// (protocol/wal/lag.rs).
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

class CommitGate {
 public:
  // Gets a warning about the statement of the calling thread.
  using Warn = std::function<void(const std::string &message)>;

  // All arguments outlive the gate.
  CommitGate(atoll_store *store, lsm::Rows *rows, const Settings *settings, Warn warn)
      : store_(store), rows_(rows), settings_(settings), warn_(std::move(warn)) {}

  // Called before a transaction is written. When the upload backlog has no room for finished files, RocksDB
  // may hold writers back, and KILL cannot end that wait. So the transaction waits here instead, where KILL
  // can. `is_spilled`: it waits whenever the backlog has no room, otherwise only while RocksDB holds writers
  // back. Errors: kInterrupted, the statement was killed.
  Status before_commit(bool is_spilled) const;
  // Blocks while the bucket lags too much (atoll_durability); called after each commit with its position.
  // Errors: kUnavailable (the commit is local, but the bucket did not catch up within
  // atoll_lag_wait_timeout), kInterrupted (KILL while waiting), kFenced.
  Status after_commit(uint64_t wal_position) const;
  // Notes a commit that is in the log: a root in the bucket says which commits were the newest when it was
  // made.
  void note_commit(const lsm::CommitMark &mark) const;
  // DDL is published before it returns (gate PUB-G8), bounded by the lag settings. With async, a bucket that
  // does not catch up is a warning: the statement is done, and the commits after it wait. Errors: with sync,
  // as after_commit(); else kFenced.
  Status after_ddl() const;
  // Waits until everything that is local is in the bucket, whatever atoll_durability says. Errors: as
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
