// Decides when the workers of a parallel replica can share one sync of the log.
//
// The server lets a worker commit once the commit before it has woken that worker. If both commits are only
// in ATOLL, the first may wake the next before its own sync: the log is written in the order of the commits,
// so no crash keeps the later commit and loses the earlier one. But the sync must come first if the next
// commit may become durable outside ATOLL's log. Otherwise a crash could lose the earlier commit for ever,
// because after the crash the replica continues after the last position that it finds. There are two such
// cases:
//
//   another engine has a table of GTID positions: a transaction may become durable there without a call
//     of ATOLL
//   two-phase commit: a decision in tc.log is durable by itself, and the transaction that it commits may be
//     prepared, and synced, before the earlier commit is written
#pragma once

#include <atomic>

class THD;

namespace atoll::handler {

// A session's two-phase commit, from before its prepared section is written until the commit is over.
class TwoPhaseCommit {
 public:
  ~TwoPhaseCommit() { end(); }
  void begin();
  void end();
  // Whether any session has begun a two-phase commit and not ended it.
  static bool is_under_way() { return count_.load() > 0; }

 private:
  bool is_begun_ = false;
  static std::atomic<int> count_;
};

// Whether all commits that follow on this replica are only in ATOLL. It does not say whether one of them is a
// two-phase commit: the caller asks TwoPhaseCommit::is_under_way() when the commit of `thd` is in the log. A
// two-phase commit that begins later syncs the commit of `thd` together with its own prepared section.
bool next_commits_are_ours(THD *thd);

}  // namespace atoll::handler
