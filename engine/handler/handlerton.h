// The functions that the server calls for the engine as a whole (the handlerton), not for one open table.
#pragma once

#include <string>

#include "base/status.h"
#include "txn/locks/lock_table.h"

struct handlerton;
class THD;

namespace atoll::engine {
class Engine;
}

namespace atoll::handler {

// Fills the flags, the option list and the callbacks of the engine, except those that concern its start, stop
// and status (plugin/plugin.cc). Called once from plugin init.
void fill_handlerton(handlerton *hton);

// The handlerton of this engine: the one that fill_handlerton() was called with.
handlerton *own_handlerton();

void fill_transaction_callbacks(handlerton *hton);
void fill_ddl_callbacks(handlerton *hton);
void fill_discovery_callbacks(handlerton *hton);

// Renames a partitioned table of another engine; `from` and `to` are paths of the whole table. After a crash
// in an ALTER of a partitioned table from ATOLL to another engine, the server may roll the ALTER forward. It
// then asks the engine of the old table, ATOLL, to rename the new table. This function passes the request on
// to the other engine. Returns a handler error: HA_ERR_NO_SUCH_TABLE when there is no such table.
int rename_for_other_engine(THD *thd, const char *from, const char *to);

// Rolls back the transactions that the two-phase commit of another server had prepared. It does so only if
// the database was restored from the bucket, and no log that a crash of this server has left may know these
// transactions. Without a commit record in the bucket, none of them was promised to survive. XA transactions
// of users stay for XA RECOVER. Failures are logged, and the transaction stays prepared.
void roll_back_undecided(engine::Engine *engine);

// Makes the lock table report every lock wait to parallel replication before the wait starts. If the holder
// of the lock must commit after the waiting transaction, replication kills the holder. Also lets the server
// choose the victim of a deadlock. Called once, before the first lock.
void watch_lock_waits(txn::LockTable *locks);

// Called while a partition is created. Stores `frm`, the .frm image of the whole table, in the catalog entry
// of the whole table. Errors: as the catalog's writes.
Status note_partitioned_frm(const char *partition_path, std::string frm);

// Remembers the .frm that an in-place ALTER gives the table (for a partitioned table: the whole table). The
// .frm is stored in the catalog when the ALTER commits, and forgotten when the ALTER fails.
void announce_definition(const std::string &database, const std::string &table, std::string frm);

}  // namespace atoll::handler
