// What happens when the server loads and unloads the engine.
#include "handler/server.h"

#include <log.h>
#include <mysqld.h>

#include "plugin/plugin.h"

#include "base/log.h"
#include "handler/server/callback.h"
#include "handler/session/coordinator_log.h"
#include "handler/handlerton.h"
#include "plugin/host/heap.h"
#include "plugin/log.h"
#include "plugin/start_stop.h"
#include "plugin/show/status.h"
#include "plugin/sysvars.h"

namespace atoll::plugin {

namespace {

// At its start, the server decides once whether the binary log or tc.log coordinates two-phase commits. An
// engine that is loaded later takes part in them only if the binary log is on.
void warn_about_late_loading() {
  if (!mysqld_server_started || opt_bin_log) return;
  log_warning(
      "loaded while the server runs and without the binary log: a transaction that changes tables of ATOLL "
      "and of another engine is not atomic over a crash. Put plugin-load-add=ha_atoll into the server's "
      "configuration file and restart");
}

bool show_status(handlerton *, THD *thd, stat_print_fn *print, ha_stat_type type) {
  if (type != HA_ENGINE_STATUS) return false;
  const std::string text = engine_status_text();
  return print(thd, STRING_WITH_LEN("ATOLL"), STRING_WITH_LEN(""), text.data(),
               static_cast<uint>(text.size()));
}

// The server calls this when it has finished recovery from its DDL log.
int signal_ddl_recovery_done(handlerton *) {
  finish_ddl_recovery(/*with_log=*/true);
  return 0;
}

void fill_callbacks(handlerton *hton) {
  handler::fill_handlerton(hton);
  hton->show_status = guarded_function<show_status, handler::fails_by<true>>;
  hton->pre_shutdown = guarded_function<stop_own_statements, handler::is_logged>;
  hton->signal_ddl_recovery_done = guarded_function<signal_ddl_recovery_done, handler::is_logged_by<0>>;
}

// True while the server makes its system tables in a new data directory (mariadb-install-db). The engine has
// no tables then, and leaves the bucket alone: it would claim it, or wait for its former owner, and the
// set-up would fail.
bool makes_system_tables() { return opt_bootstrap; }

void start_engine(handlerton *hton) {
  set_log_sink(&write_to_server_log);
  if (makes_system_tables()) return;
  if (wants_bounded_heap()) bound_heap();
  fill_callbacks(hton);
  warn_about_late_loading();
  (void)start_instance(hton);  // a failure is logged, and statements get it from engine::ready()
  if (!mysqld_server_started) handler::commit_decided_transactions();
}

}  // namespace

int init_engine(void *engine) {
  return guarded([&] { return start_engine(static_cast<handlerton *>(engine)), 0; },
                 [](const Status &status) {
                   guarded(stop_instance, handler::is_logged);
                   return handler::is_logged_by<1>(status);
                 });
}

int deinit_engine(void *) {
  guarded(stop_instance, handler::is_logged);
  return 0;
}

}  // namespace atoll::plugin
