// Messages to the service manager (systemd) that started the server. Without one, nothing happens.
#pragma once

#include <chrono>
#include <string>

#include "base/namespace.h"

namespace atoll::plugin {

// Tells the service manager that the start goes on, for the reason `why`, and asks it to wait at least
// `extension` longer before it gives the start up. Threads: any. Blocks: no. Errors: none; a manager that
// cannot be reached ends the start when it would have done so without this call.
void ask_for_more_time(const std::string &why, std::chrono::seconds extension);

}  // namespace atoll::plugin
