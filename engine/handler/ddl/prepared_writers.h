// Keeps DDL from tables that prepared XA transactions have changed. A prepared transaction has no metadata
// lock if its connection is gone, or if the server has found it at start. Its changes are stored under the
// keys that the table's rows have now, so the table must keep these keys.
#pragma once

#include "catalog/catalog.h"

namespace atoll::handler {

// True when a prepared transaction has changed the table or, if `def` is a partition, any partition of the
// same table. Then the table must not be dropped, truncated or copied, and this function has raised the error
// for the user. The caller returns HA_ERR_LOCK_WAIT_TIMEOUT, as InnoDB does after a wait.
// Requires: an exclusive or, for ALTER, an upgradable metadata lock, so that no other connection writes the
// table.
bool refuse_for_prepared_writers(const catalog::TableDef &def);

}  // namespace atoll::handler
