// See gtid_state.h.
#include "handler/server.h"

#include "plugin/recovery/gtid_state.h"

#include <algorithm>
#include <string>
#include <vector>

#include <log.h>
#include <mysqld.h>

#include "base/log.h"
#include "engine/engine.h"
#include "plugin/host/local_sql.h"

namespace atoll::plugin {
namespace {

using lsm::Gtid;

bool is_in_binary_log(const Gtid &gtid) {
  rpl_gtid last;
  return mysql_bin_log.lookup_domain_in_binlog_state(gtid.domain, &last) && last.seq_no >= gtid.sequence;
}

std::string text_of(const std::vector<Gtid> &gtids) {
  std::string text;
  for (const Gtid &gtid : gtids) {
    text += (text.empty() ? "" : ",") + std::to_string(gtid.domain) + "-" + std::to_string(gtid.server) +
            "-" + std::to_string(gtid.sequence);
  }
  return text;
}

}  // namespace

void continue_gtids(const engine::Engine &engine) {
  if (!engine.was_restored() || !opt_bin_log || !mysql_bin_log.is_open()) return;
  std::vector<Gtid> gtids = engine.newest_gtids();
  if (std::all_of(gtids.begin(), gtids.end(), is_in_binary_log)) return;
  const std::string position = text_of(gtids);
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

}  // namespace atoll::plugin
