// The error log as every folder writes to it. What stands behind it is set once, at start: in the server its
// own error log (plugin/log.h); without a sink, as in unit tests, a message is dropped.
#pragma once

#include <string>

#include "base/namespace.h"

namespace atoll {

enum class LogLevel : int { kInfo = 0, kWarning = 1, kError = 2 };

// Gets each message. Must not throw; is called by any thread.
using LogSink = void (*)(int level, const char *message);

// Threads: call before the threads that log start.
void set_log_sink(LogSink sink);

// `level`: the number of a LogLevel. Never throws.
void log_at_level(int level, const char *message);
void log_info(const std::string &message);
void log_warning(const std::string &message);
void log_error(const std::string &message);

}  // namespace atoll
