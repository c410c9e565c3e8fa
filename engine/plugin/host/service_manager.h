// Sends messages to the service manager (systemd) that started the server. Does nothing when none did.
#pragma once

#include <chrono>
#include <string>

#include "base/namespace.h"

namespace atoll::plugin {

// Tells the service manager that the start is still in progress, for the reason `why`, and asks it to wait at
// least `extension` longer before it gives the start up. Threads: any. Blocks: no. Errors: none. A manager
// that cannot be reached gives the start up when it would have done so without this call.
void ask_for_more_time(const std::string &why, std::chrono::seconds extension);

}  // namespace atoll::plugin
