// The one running engine: what plugin init opens and deinit closes. The only mutable globals of the plugin.
//
// Life: start_instance() tries to open. When the bucket is unreachable (kUnavailable) the plugin stays loaded
// and a background thread tries again each 30 seconds, later more rarely; while another server may still own
// the bucket it looks at it each 5 seconds, for 140 seconds. After any other failure SQL gets the reason
// until the server is restarted with a better configuration. The server itself is kept from starting by one
// thing only, that wait: when the binary log or tc.log may have to commit transactions in local files of the
// engine.
//
// Threads: everything here may be called from any thread; start and stop only from plugin init and deinit.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "bridge/objstore.h"
#include "catalog/catalog.h"
#include "lsm/commit_mark.h"
#include "lsm/database.h"
#include "txn/transaction.h"

struct handlerton;

namespace atoll::plugin {

// Members are closed in reverse order, by stop_instance().
struct Instance {
  handlerton *hton = nullptr;
  atoll_store *store = nullptr;
  std::unique_ptr<lsm::Database> database;
  std::unique_ptr<txn::Manager> transactions;
  std::unique_ptr<catalog::Catalog> catalog;
};

// nullptr when the engine could not open (start-up message in the error log): every handler entry point
// checks ready() and returns an SQL error that repeats why. Costs one atomic load.
Instance *instance();
// Errors: kUnavailable, whatever kept the engine from running.
Status ready();
// ready(), and this server may write: neither fenced by a newer owner of the bucket (kFenced) nor told not to
// (atoll_read_only, kReadOnly). Costs three atomic loads when all is well.
Status may_write();

// Opens everything from the system variables. Called once from plugin init. Errors are kept for ready() and
// logged; the return value is for tests.
Status start_instance(handlerton *hton);
// Flushes, publishes (bounded wait), closes. Called from plugin deinit.
void stop_instance();

// Ends the background's own statements (plugin/table_mover.h), and waits for them. Called before the server
// ends the connections; free when called again.
void stop_moves();

// No statement runs yet: files and catalog are made to agree (plugin/ddl_recovery.h). Called by the
// handlerton when the server has gone through its DDL log, `with_log`, and wherever the engine opens later
// than that: then files may be of before a change that the log would have finished.
void finish_ddl_recovery(bool with_log);

// atoll_cache_size, or half of the disk if that is less: then the log says so.
uint64_t fitting_cache_bytes();

// ---- error log ----
void log_info(const std::string &message);
void log_warning(const std::string &message);
void log_error(const std::string &message);

// ---- system variables as the handler needs them (sysvars.cc) ----
unsigned long lock_wait_timeout_s(void *thd);  // min(atoll_lock_wait_timeout, session lock_wait_timeout)
bool flush_at_commit();                        // atoll_flush_log_at_trx_commit == 1
bool snapshot_isolation(void *thd);            // atoll_snapshot_isolation
bool ignore_foreign_keys(void *thd);           // atoll_ignore_foreign_keys
unsigned long scan_threads(void *thd);         // atoll_scan_threads
lsm::Compression default_compression();        // atoll_compression, atoll_compression_level
// Called before a transaction is written. Where RocksDB would hold the writer back, unseen by KILL, because
// finished files find no room in the upload backlog, waits here; `is_spilled`: wherever they find no room.
// Errors: kInterrupted, the statement was killed.
Status before_commit(bool is_spilled);
// Blocks while the bucket lags too much (atoll_durability); called after each commit with its position.
// Errors: kUnavailable (the commit is local, but the bucket did not catch up within atoll_lag_wait_timeout),
// kInterrupted (KILL while waiting), kFenced.
Status after_commit(uint64_t wal_position);
// A commit is in the log; roots in the bucket say which were the newest.
void note_commit(const lsm::CommitMark &mark);
// DDL is published before it returns (gate PUB-G8), bounded by the lag settings. With async, a bucket that
// does not catch up is a warning: the statement is done, and the commits after it wait. Errors: with sync, as
// after_commit(); else kFenced.
Status after_ddl();
// Waits until everything that is local is in the bucket, whatever atoll_durability says. Errors: as
// after_commit().
Status publish_all();

// ---- databases ----
// The handler created a table in this database directory (a name as in the file system, no slash): its db.opt
// is to be kept, so that an empty data directory can be rebuilt. Done soon, by the background thread.
void note_database(const char *directory);

// SHOW ENGINE ATOLL STATUS.
std::string engine_status_text();

}  // namespace atoll::plugin
