// Writes the messages of base/log.h to the server's error log.
#pragma once

#include "base/namespace.h"

namespace atoll::plugin {

// Writes to the server's error log. A warning or an error that was logged within the last minute is left out.
// `level`: ATOLL_LOG_INFO, _WARNING, _ERROR. Never throws. Threads: any.
void write_to_server_log(int level, const char *message) noexcept;

}  // namespace atoll::plugin
