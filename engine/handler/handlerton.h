// What the server calls on the engine as a whole.
#pragma once

#include <string>

#include "base/status.h"
#include "txn/locks/lock_table.h"

struct handlerton;
class THD;

namespace atoll::handler {

// Fills the flags, the option list and the callbacks of the engine, except those that concern its start, stop
// and status (plugin/plugin.cc). Called once from plugin init.
void fill_handlerton(handlerton *hton);

// The engine as the server knows it: what fill_handlerton() got.
handlerton *own_handlerton();

void fill_transaction_callbacks(handlerton *hton);
void fill_ddl_callbacks(handlerton *hton);
void fill_discovery_callbacks(handlerton *hton);

// Renames a partitioned table of another engine; `from` and `to` are paths of the whole table. After a crash
// in an ALTER of a partitioned table from ATOLL to another engine, the server may roll the ALTER forward. It
// then asks the engine of the old table, ATOLL, to rename the new table. This function passes the request on
// to the other engine. Returns a handler error: HA_ERR_NO_SUCH_TABLE when there is no such table.
int rename_for_other_engine(THD *thd, const char *from, const char *to);

// Lets parallel replication know of every lock wait before the wait starts; it then kills the transaction
// that must commit later. Called once, before the first lock.
void watch_lock_waits(txn::LockTable *locks);

// Called while a partition is created: stores `frm`, the definition of the whole table, in the table's
// logical entry. Errors: those of the catalog's writes.
Status note_partitioned_frm(const char *partition_path, std::string frm);

// The server has written the .frm that an in-place ALTER will give the table (for a partitioned table: the
// whole table). It reaches the catalog when the ALTER commits; when the ALTER fails it is forgotten.
void announce_definition(const std::string &database, const std::string &table, std::string frm);

}  // namespace atoll::handler
