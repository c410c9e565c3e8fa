// The border between the server and ha_atoll: the handler that the server gets is derived from ha_atoll and
// lets no exception through (rule BORDER-1).
#pragma once

#include "handler/server.h"

namespace atoll::handler {

// For handlerton::create: a handler for a table or partition of `share`, in memory of `mem_root`. nullptr: no
// memory.
::handler *make_handler(handlerton *hton, TABLE_SHARE *share, MEM_ROOT *mem_root);

}  // namespace atoll::handler
