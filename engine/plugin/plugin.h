// The init and deinit functions of the storage engine plugin, which plugin_link.cc declares to the server.
#pragma once

#include "base/namespace.h"

namespace atoll::plugin {

constexpr char kVersionText[] = "0.1.0";

// `engine` is the handlerton. Never fails because of the bucket, a disk or a setting: then the server starts
// without the engine's tables (start_stop.h). Returns 1 only when the process has no memory or no thread for
// the engine, and logs this.
int init_engine(void *engine);
int deinit_engine(void *engine);

}  // namespace atoll::plugin
