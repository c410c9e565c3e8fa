// When the workers of a parallel replica may share one sync of the log.
//
// The server lets a worker commit once the commit before it has woken that worker. Within ATOLL, a commit may
// wake the next one before its own sync: the log is written in the order of the commits, so no crash keeps
// the later commit and loses the earlier one. But if the next commit may become durable elsewhere, the sync
// must come first. Otherwise a crash could lose the earlier commit for ever, because the replica continues
// behind the last position that it finds:
//
//   another engine has a position   a transaction may become durable there without any call of ATOLL
//   two-phase commit                a decision in tc.log is durable by itself; the transaction it concerns
//                                   may be prepared, and synced, before the commit in front of it is written
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
  // Whether any session has one.
  static bool is_under_way() { return count_.load() > 0; }

 private:
  bool is_begun_ = false;
  static std::atomic<int> count_;
};

// Whether the commits of this replica that follow are all within ATOLL. It does not say whether one of them
// is a two-phase commit: ask TwoPhaseCommit::is_under_way() once the commit of `thd` is in the log. A
// two-phase commit that begins later syncs the commit of `thd` together with its own prepared section.
bool next_commits_are_ours(THD *thd);

}  // namespace atoll::handler
