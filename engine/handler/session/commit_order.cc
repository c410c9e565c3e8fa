// See commit_order.h.
#include "handler/server.h"

#include "handler/session/commit_order.h"

#include <rpl_rli.h>

#include <utility>

#include "handler/handlerton.h"

namespace atoll::handler {

std::atomic<int> TwoPhaseCommit::count_{0};

void TwoPhaseCommit::begin() {
  if (!std::exchange(is_begun_, true)) count_.fetch_add(1);
}

void TwoPhaseCommit::end() {
  if (std::exchange(is_begun_, false)) count_.fetch_sub(1);
}

// The workers of a replica may read the list without its lock. Source: sql/rpl_gtid.h, gtid_pos_tables.
bool next_commits_are_ours(THD *thd) {
  if (thd->wait_for_commit_ptr == nullptr) return false;
  const auto *table = rpl_global_gtid_slave_state->gtid_pos_tables.load(std::memory_order_acquire);
  if (table == nullptr) return false;
  for (; table != nullptr; table = table->next)
    if (table->table_hton != own_handlerton()) return false;
  return true;
}

}  // namespace atoll::handler
