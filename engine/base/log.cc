// See log.h.
#include "base/log.h"

#include <atomic>

namespace atoll {
namespace {

std::atomic<LogSink> log_sink{nullptr};

void log(LogLevel level, const std::string &message) {
  log_at_level(static_cast<int>(level), message.c_str());
}

}  // namespace

void set_log_sink(LogSink sink) { log_sink.store(sink, std::memory_order_release); }

void log_at_level(int level, const char *message) {
  if (const LogSink sink = log_sink.load(std::memory_order_acquire)) sink(level, message);
}

void log_info(const std::string &message) { log(LogLevel::kInfo, message); }

void log_warning(const std::string &message) { log(LogLevel::kWarning, message); }

void log_error(const std::string &message) { log(LogLevel::kError, message); }

}  // namespace atoll
