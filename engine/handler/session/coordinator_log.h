// tc.log: the server's record of decided two-phase commits while the binary log is off.
#pragma once

#include "base/namespace.h"

namespace atoll::handler {

// Commits what tc.log says was decided before a crash, in every engine that is ready.
//
// MariaDB 10.11 passes the list from tc.log to ha_recover, which ignores the list and rolls back all prepared
// transactions. So an engine that had made its commit durable would keep its half of a transaction, and the
// other engines would lose theirs. A transaction that this function commits is no longer prepared when
// ha_recover asks for prepared ones. The server then rolls back only what tc.log does not name, which is
// right.
//
// The server starts its engines in the order of a hash table, and in this order asks each for its prepared
// transactions. So the function must be called twice: when ATOLL starts, for the engines that have started
// before it, and when the server asks ATOLL for its prepared transactions, for ATOLL and the engines after
// it. Does nothing when there is a binary log. Failures are logged.
void commit_decided_transactions();

// Whether the server's recovery may have to commit transactions that a former process has prepared, because
// the binary log or tc.log says so. An engine that opens after the recovery could not take part in it. Reads
// tc.log.
bool recovery_may_commit();

// Whether the binary log or tc.log, as the last process of this server left it, may have to decide about
// prepared transactions. It need not if that process closed the log in order: by then it had ended every
// transaction in all engines. Must be called before the server opens the log.
bool has_undecided_log();

}  // namespace atoll::handler
