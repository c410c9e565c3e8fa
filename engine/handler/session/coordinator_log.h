// tc.log: the server's record of decided two-phase commits while the binary log is off.
#pragma once

#include "base/namespace.h"

namespace atoll::handler {

// Commits what tc.log says was decided before a crash, in every engine that is ready.
//
// MariaDB 10.11 hands ha_recover the list from tc.log and then rolls back all prepared transactions without
// looking at it. An engine that had made its commit durable keeps its half, the others lose theirs. What is
// committed here is no longer prepared when the server comes to it; what tc.log does not name it rolls back,
// rightly.
//
// The server starts and asks its engines in the order of a hash table. So call at this engine's start, for
// those that come before it, and again when it is asked for its prepared transactions, for itself and those
// that come after. Does nothing when there is a binary log. Failures are logged.
void commit_decided_transactions();

// Whether this start of the server may have to commit what a former process prepared, because the binary log
// or tc.log says so. An engine that opens later than that could not take part any more. Reads tc.log.
bool recovery_may_commit();

}  // namespace atoll::handler
