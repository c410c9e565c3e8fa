// See statement_hooks.h.
#include "handler/server.h"

#include "plugin/host/statement_hooks.h"

#include <mysql/service_kill_statement.h>
#include <mysqld.h>

namespace atoll::plugin {

bool is_killed() {
  const THD *thd = current_thd;
  return thd != nullptr && is_statement_killed(thd);
}

void warn_statement(const std::string &message) {
  if (current_thd != nullptr)
    push_warning_printf(current_thd, Sql_condition::WARN_LEVEL_WARN, ER_GET_ERRMSG, "ATOLL: %s",
                        message.c_str());
}

bool is_out_of_time() {
  const THD *thd = current_thd;
  if (thd == nullptr || thd->slave_thread || thd->variables.max_statement_time == 0) return false;
  return microsecond_interval_timer() - thd->start_utime >= thd->variables.max_statement_time;
}

void show_wait(bool waits) {
  static PSI_stage_info waiting = {0, "Waiting for the bucket", 0};
  thread_local PSI_stage_info before;
  THD *thd = current_thd;
  if (thd == nullptr) return;
  if (waits) {
    thd->backup_stage(&before);
    THD_STAGE_INFO(thd, waiting);
  } else {
    THD_STAGE_INFO(thd, before);
  }
}

}  // namespace atoll::plugin
