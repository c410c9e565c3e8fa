// tc.log: the server's record of decided two-phase commits while the binary log is off.
#pragma once

#include "base/namespace.h"

namespace atoll::handler {

// Commits what tc.log says was decided before a crash, in every engine that is ready.
//
// MariaDB 10.11 passes the list from tc.log to ha_recover, which ignores it and rolls back all prepared
// transactions. So an engine that had made its commit durable would keep its half of a transaction, and the
// other engines would lose theirs. A transaction that this function commits is no longer prepared when the
// server comes to it. The server rolls back what tc.log does not name, which is right.
//
// The server starts its engines, and asks them for their prepared transactions, in the order of a hash table.
// So call this function when this engine starts, for the engines before it, and again when the server asks
// this engine for its prepared transactions, for this engine and those after it. Does nothing when there is a
// binary log. Failures are logged.
void commit_decided_transactions();

// Whether this start of the server may have to commit what a former process prepared, because the binary log
// or tc.log says so. An engine that opens later than that could not take part any more. Reads tc.log.
bool recovery_may_commit();

}  // namespace atoll::handler
