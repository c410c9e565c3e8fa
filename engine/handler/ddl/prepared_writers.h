// DDL and prepared XA transactions. A prepared transaction whose connection is gone, or that was found at
// start, has no metadata lock; its changes stand under the keys that the table's rows have now.
#pragma once

#include "catalog/catalog.h"

namespace atoll::handler {

// True when a prepared transaction has changed the table, or one of its partitions when `def` is of a
// partition: then it may be neither dropped, emptied nor copied, and the error that says so has been raised.
// The caller returns HA_ERR_LOCK_WAIT_TIMEOUT, which is InnoDB's answer after a wait.
// Requires: an exclusive or, for ALTER, an upgradable metadata lock, so that nobody else writes the table.
bool refuse_for_prepared_writers(const catalog::TableDef &def);

}  // namespace atoll::handler
