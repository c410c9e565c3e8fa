// When the workers of a parallel replica may share a sync of the log.
//
// The server lets a worker commit once the commit before it has woken it. Within ATOLL a commit may wake the
// next one before it is synced: the log is written in this order, so no crash keeps the later one alone. A
// commit that becomes durable elsewhere must come after the sync, because a replica goes on behind the last
// position that it finds, and what is missing in front of it is lost:
//
//   another engine has a position   a transaction may be durable there without a word to ATOLL
//   two-phase commit                a decision in tc.log is durable by itself; what it decides on may be
//                                   prepared, and synced, before the commit that it follows is written
#pragma once

#include <atomic>

class THD;

namespace atoll::handler {

// One of a session, from before its prepared section is written until it is over.
class TwoPhaseCommit {
 public:
  ~TwoPhaseCommit() { end(); }
  void begin();
  void end();
  // Of any session.
  static bool is_under_way() { return count_.load() > 0; }

 private:
  bool is_begun_ = false;
  static std::atomic<int> count_;
};

// The next commits of this replica are ATOLL's too. Whether a two-phase commit is among them, is_under_way()
// says once the commit of `thd` is in the log: one that begins later syncs it with its prepared section.
bool next_commits_are_ours(THD *thd);

}  // namespace atoll::handler
