// What happens when the server loads and unloads the engine.
#include "handler/server.h"

#include <log.h>
#include <mysqld.h>

#include "plugin/instance.h"
#include "plugin/plugin.h"

#include "handler/coordinator_log.h"
#include "handler/handlerton.h"
#include "plugin/heap.h"
#include "plugin/sysvars.h"

namespace atoll::plugin {

namespace {

// The server chooses between the binary log and its own log of transactions once, at start; engines that come
// later take no part in two-phase commit unless the binary log is on.
void warn_about_late_loading() {
  if (!mysqld_server_started || opt_bin_log) return;
  log_warning(
      "loaded while the server runs and without the binary log: a transaction that changes tables of ATOLL "
      "and of another engine is not atomic over a crash. Put plugin-load-add=ha_atoll into the server's "
      "configuration file and restart");
}

}  // namespace

int init_engine(void *engine) {
  auto *hton = static_cast<handlerton *>(engine);
  bound_heap();
  handler::fill_handlerton(hton);
  warn_about_late_loading();
  (void)start_instance(hton);  // logged and kept for ready(): the server starts in any case
  if (!mysqld_server_started) handler::commit_decided_transactions();
  return 0;
}

int deinit_engine(void *) {
  stop_instance();
  return 0;
}

}  // namespace atoll::plugin
