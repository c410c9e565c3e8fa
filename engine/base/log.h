// Messages for the server's error log, from any folder. A sink that receives the messages is set once, at
// start: plugin/log.h writes them to the error log. Without a sink, as in unit tests, messages are dropped.
#pragma once

#include <string>

#include "base/namespace.h"

namespace atoll {

enum class LogLevel : int { kInfo = 0, kWarning = 1, kError = 2 };

// Receives each message. Must not throw. Called by any thread.
using LogSink = void (*)(int level, const char *message);

// Requires: called before any thread starts that logs.
void set_log_sink(LogSink sink);

// `level`: the number of a LogLevel. Never throws.
void log_at_level(int level, const char *message);
void log_info(const std::string &message);
void log_warning(const std::string &message);
void log_error(const std::string &message);

}  // namespace atoll
