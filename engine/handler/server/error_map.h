// Converts a Status to the handler error (HA_ERR_*) on which MariaDB acts. Some functions return another
// error for a code, for example ha_atoll::open() for kNotFound.
#pragma once

#include "base/status.h"

class THD;

namespace atoll::handler {

// Returns the HA_ERR_* for `code`. Has no side effect.
int to_ha_error(Code code);

// As to_ha_error(), but with another error for an object that the bucket has lost.
int to_ha_error(const Status &status);

// Returns to_ha_error() and tells the server and the user what happened. After a deadlock the transaction is
// marked for rollback, after a lock timeout only the statement. For codes whose text matters, the full
// message becomes a warning. kCorruption and kBug also go to the error log, except lost objects,
// which are there already.
int report(THD *thd, const Status &status);

}  // namespace atoll::handler
