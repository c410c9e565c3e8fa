// See gtid_state.h.
#include "handler/server.h"

#include "plugin/recovery/gtid_state.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <log.h>
#include <mysqld.h>

#include "base/log.h"
#include "bridge/objstore.h"
#include "engine/engine.h"
#include "plugin/host/local_sql.h"
#include "plugin/reading/gtid_list.h"

namespace atoll::plugin {
namespace {

using lsm::Gtid;

bool is_in_binary_log(const Gtid &gtid) {
  rpl_gtid last;
  return mysql_bin_log.lookup_domain_in_binlog_state(gtid.domain, &last) && last.seq_no >= gtid.sequence;
}

std::vector<Gtid> binary_log_position() {
  String text;
  if (mysql_bin_log.append_state_pos(&text)) return {};
  return parse_gtids({text.ptr(), text.length()}).value_or(std::vector<Gtid>());
}

bool is_any_prepared(const engine::Engine &engine) {
  const std::vector<txn::TransactionInfo> all = engine.transactions()->list();
  return std::any_of(all.begin(), all.end(), [](const txn::TransactionInfo &info) { return info.prepared; });
}

}  // namespace

void continue_gtids(const engine::Engine &engine) {
  if (!engine.was_restored() || !opt_bin_log || !mysql_bin_log.is_open()) return;
  std::vector<Gtid> gtids = engine.newest_gtids();
  if (std::all_of(gtids.begin(), gtids.end(), is_in_binary_log)) return;
  const std::string position = gtid_text(gtids);
  const std::string statement = "SET GLOBAL gtid_binlog_state = '" + position + "'";
  std::string why = "the binary log of this server has other transactions";
  if (mysql_bin_log.is_empty_state()) {
    const LocalSql::Outcome outcome = LocalSql().run(statement);
    if (outcome.error == 0) {
      return log_info("the binary log goes on behind GTID position " + position +
                      " of the newest commits in the bucket. A replica that has later transactions must be "
                      "made anew");
    }
    why = outcome.message;
  }
  for (const Gtid &gtid : gtids) mysql_bin_log.bump_seq_no_counter_if_needed(gtid.domain, gtid.sequence);
  log_warning("the newest commits in the bucket have GTID position " + position +
              ", and the binary log cannot go on there: " + why +
              ". New transactions get higher numbers. So that replicas at this position can connect, type "
              "before anything is written: RESET MASTER; " +
              statement);
}

Status DdlGtids::look(const engine::Engine &engine) {
  const uint64_t generation = engine.catalog()->generation();
  if (generation != std::exchange(generation_, generation)) looks_left_ = kLooks;
  if (looks_left_ == 0 || !opt_bin_log || !mysql_bin_log.is_open()) return Status::Ok();
  looks_left_--;
  const std::vector<Gtid> logged = std::exchange(before_, binary_log_position());
  if (covers(engine.newest_gtids(), logged) || is_any_prepared(engine)) return Status::Ok();
  for (const Gtid &gtid : logged) {
    if (covers(engine.newest_gtids(), {gtid})) continue;
    lsm::CommitMark mark;
    mark.gtid = gtid;
    ATOLL_RETURN_IF_ERROR(engine.database()->write_mark(mark));
    // Time 0: as in the log, only the number makes it count.
    atoll_store_note_commit(engine.store(), 0, engine.database()->newest_sequence(), gtid.domain, gtid.server,
                            gtid.sequence, 0, 0);
  }
  return Status::Ok();
}

}  // namespace atoll::plugin
