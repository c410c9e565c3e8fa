// Init and deinit of the storage engine plugin, as the declaration in plugin_link.cc names them.
#pragma once

#include "base/namespace.h"

namespace atoll::plugin {

// `engine` is the handlerton. Never fails because of the bucket, a disk or a setting: see start_stop.h.
// Returns 1 when the server process has no memory or no thread for the engine; the log says so.
int init_engine(void *engine);
int deinit_engine(void *engine);

}  // namespace atoll::plugin
