// Log functions of the layers below, as they want to call them.
#pragma once

#include <string>

#include "base/namespace.h"

namespace atoll::plugin {

// `level`: ATOLL_LOG_INFO, _WARNING, _ERROR.
void log_at_level(int level, const std::string &message);
void log_from_store(int level, const char *message);

}  // namespace atoll::plugin
