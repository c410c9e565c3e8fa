// SQL functions ATOLL_SNAPSHOT('name') and ATOLL_DROP_SNAPSHOT('name') (action_function.h). Both return the
// name.
#pragma once

#include <string>

#include "base/status.h"

class Create_func;

namespace atoll::plugin {

// Make or drop a snapshot. `what`: a text for the user about what was done. Requires: the engine runs.
// make_snapshot() blocks until the bucket has everything that is on local disk. Errors: kInvalid, kNotFound,
// kFenced, kUnavailable, kInterrupted, see atoll_store_create_snapshot() and atoll_store_drop_snapshot().
Status make_snapshot(const std::string &name, std::string *what);
Status drop_snapshot(const std::string &name, std::string *what);

Create_func *snapshot_function();
Create_func *drop_snapshot_function();

}  // namespace atoll::plugin
