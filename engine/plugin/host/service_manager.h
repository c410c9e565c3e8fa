// Words to the service manager (systemd) that started the server. Without one, nothing happens.
#pragma once

#include <chrono>
#include <string>

#include "base/namespace.h"

namespace atoll::plugin {

// A start goes on, for the reason `why`, and wants at least `extension` more before it is given up.
// Threads: any. Blocks: no. Errors: none; a manager that cannot be reached ends the start when it would have.
void ask_for_more_time(const std::string &why, std::chrono::seconds extension);

}  // namespace atoll::plugin
