// Chooses the handler error MariaDB acts on. The only place that turns a Status into HA_ERR_*.
#pragma once

#include "base/status.h"

class THD;

namespace atoll::handler {

// The HA_ERR_* for `code`. Pure.
int to_ha_error(Code code);

// As to_ha_error, and tells the server and the user what happened: the transaction is marked for rollback
// after a deadlock, and codes whose text matters are pushed as a warning with the full message.
int report(THD *thd, const Status &status);

}  // namespace atoll::handler
