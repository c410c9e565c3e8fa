// Starts and stops the engine for the server, with the threads that run in between. Called by the plugin's
// init and deinit functions.
//
// Life: start_instance() tries to open the engine. When the bucket does not answer or refuses the requests
// (kUnavailable), the plugin stays loaded, and a background thread tries again every 30 seconds, later more
// rarely, and at once when SET GLOBAL gives other keys. While another server may still own the bucket, the
// thread tries every 5 seconds; this takes up to 140 seconds. After any other failure, statements get the
// reason as an error (engine/running.h) until the server is restarted with another configuration. Only one
// case delays the start of the server itself: another server may still own the bucket, and the binary log or
// tc.log may have to commit transactions in local files of the engine.
//
// Threads: start_instance() and stop_instance() only from plugin init and deinit; the other functions from
// any thread.
#pragma once

#include <string>

#include "base/status.h"

struct handlerton;

namespace atoll::plugin {

// Keys for the bucket from a SET GLOBAL, while the engine waits for the bucket. An empty access key: the
// secret key belongs to the access key in use.
struct OfferedKeys {
  std::string access_key, secret_key, session_token;
};

// Opens the engine with the settings of the system variables. Called once, from plugin init. An error is
// logged, and engine::ready() returns it to statements; the return value is for tests.
Status start_instance(handlerton *hton);
// Flushes memtables, publishes for a limited time, and closes the engine. Called from plugin deinit.
void stop_instance();

// Ends the SQL statements that the engine runs itself (plugin/host/table_mover.h, plugin/masking/masking.h),
// and waits for their end. Called before the server ends the connections. A second call does nothing.
void stop_own_statements();

// Tries to open the engine with other keys, while it waits for the bucket. If that fails, the former keys
// stay. Blocks: until the background thread has tried. Errors: those of the try; kInterrupted; the reason of
// engine::ready() when the engine does not wait.
Status open_with_keys(OfferedKeys keys);

// Makes this reader the writer (reading/promotion.h), on the background thread; waits for that. Does nothing
// on a writer. `statement`: the THD of the calling thread, whose connection goes on. Errors: kInvalid while
// its transaction has used ATOLL tables; kInterrupted; kUnavailable when transactions of other connections do
// not end; and as Engine::open(). After an error the server is a reader as before.
Status become_writer(const void *statement);

// Makes the files of the data directory and the catalog agree (plugin/recovery/ddl_recovery.h). Requires: no
// statement runs yet. `with_log`: called by the handlerton, when the server has finished recovery from its
// DDL log. Otherwise the engine opens later than that, and files may be older than a change that the log
// would have finished.
void finish_ddl_recovery(bool with_log);

}  // namespace atoll::plugin
