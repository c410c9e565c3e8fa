// ha_atoll: ANALYZE, OPTIMIZE.
#include "handler/ha_atoll.h"

#include "engine/running.h"
#include "handler/ddl/definition.h"
#include "handler/server/error_map.h"
#include "table/statistics/sampling.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace at = atoll::table;

namespace {

constexpr uint64_t kAnalyzedEntries = 200000;  // how many entries of each index ANALYZE reads, in about 0.1 s

}  // namespace

int ha_atoll::analyze(THD *thd, HA_CHECK_OPT *) {
  at::TableStatistics statistics;
  const Status status = at::sample(
      *layout(), atoll::engine::running()->database(), kAnalyzedEntries,
      [thd] { return atoll::is_statement_killed(thd); }, &statistics);
  if (!status.ok()) {
    if (status.code() != Code::kInterrupted) fail(status);
    return HA_ADMIN_FAILED;
  }
  if (statistics.rows < 0)
    statistics.rows = share_->rows;
  else
    share_->rows = statistics.rows;
  statistics.sampled_rows = statistics.rows;
  share_->set_sample(statistics);
  if (!is_temporary() && !open_table_.is_past())
    atoll::engine::running()->catalog()->set_statistics(layout()->def().id, at::encode(statistics));
  info(HA_STATUS_VARIABLE | HA_STATUS_CONST);
  return HA_ADMIN_OK;
}

int ha_atoll::optimize(THD *thd, HA_CHECK_OPT *options) {
  if (open_table_.is_past()) {
    fail(ah::past_is_read_only());
    return HA_ADMIN_FAILED;
  }
  const std::string prefix = layout()->primary_index().start.substr(0, atoll::codec::kKeyPrefixLength);
  const std::string end = atoll::codec::key_after_prefix(prefix);
  const Status status = atoll::engine::running()->database()->compact(layout()->family(), prefix, end);
  if (!status.ok()) {
    fail(status);
    return HA_ADMIN_FAILED;
  }
  return analyze(thd, options);
}
