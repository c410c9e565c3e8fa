// Starting and stopping: what plugin init opens and deinit closes, and the threads that run in between.
//
// Life: start_instance() tries to open. When the bucket is unreachable (kUnavailable) the plugin stays loaded
// and a background thread tries again each 30 seconds, later more rarely; while another server may still own
// the bucket, the thread looks at that owner each 5 seconds, for 140 seconds. After any other failure SQL
// gets the reason (engine/running.h) until the server is restarted with a better configuration. Only one
// thing keeps the server itself from starting: that wait, when the binary log or tc.log may have to commit
// transactions in local files of the engine.
//
// Threads: start and stop only from plugin init and deinit; the others from any thread.
#pragma once

#include "base/status.h"

struct handlerton;

namespace atoll::plugin {

// Opens everything from the system variables. Called once from plugin init. Errors are kept for
// engine::ready() and logged; the return value is for tests.
Status start_instance(handlerton *hton);
// Flushes, publishes (bounded wait), closes. Called from plugin deinit.
void stop_instance();

// Ends the background's own statements (plugin/host/table_mover.h, plugin/masking/masking.h), and waits for
// them. Called before the server ends the connections; free when called again.
void stop_own_statements();

// Makes files and catalog agree (plugin/recovery/ddl_recovery.h). Requires: no statement runs yet. Called by
// the handlerton when the server has gone through its DDL log (`with_log`), and wherever the engine opens
// later than that. In the latter case files may be older than a change that the log would have finished.
void finish_ddl_recovery(bool with_log);

}  // namespace atoll::plugin
