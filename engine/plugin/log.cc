// Writes to the server's error log. A message that was logged within the last minute is left out, so that an
// outage does not fill the disk.
#include "handler/server.h"

#include <log.h>

#include <chrono>
#include <map>

#include "base/border/border.h"
#include "base/mutex.h"
#include "bridge/objstore.h"
#include "plugin/log.h"

namespace atoll::plugin {
namespace {

constexpr std::chrono::seconds kQuietTime(60);
// How many messages is_new() remembers: more than one outage causes, but few enough to search through.
constexpr size_t kRemembered = 64;

// Returns true, and remembers the message, when it was not logged within the last kQuietTime.
bool is_new(const std::string &message) {
  static Mutex mutex;
  static std::map<std::string, std::chrono::steady_clock::time_point> said;
  const auto now = std::chrono::steady_clock::now();
  const MutexLock lock(mutex);
  std::erase_if(said, [&](const auto &entry) { return now - entry.second > kQuietTime; });
  if (said.contains(message)) return false;
  if (said.size() >= kRemembered) said.clear();
  said.emplace(message, now);
  return true;
}

// Whether the message is to be logged. `key` returns the text by which messages are compared. Returns true,
// too, when there is no memory to make or to remember that text.
template <typename Key>
bool is_news(const Key &key) {
  return guarded([&] { return is_new(key()); }, [](const Status &) { return true; });
}

// Returns the text by which warnings are compared: the start of the message, without digits. The same warning
// may come again with other numbers (times, attempts).
std::string without_numbers(const std::string &message) {
  constexpr size_t kTellingBytes = 100;
  std::string key;
  for (const char byte : message.substr(0, kTellingBytes))
    if (byte < '0' || byte > '9') key.push_back(byte);
  return key;
}

}  // namespace

void write_to_server_log(int level, const char *message) noexcept {
  if (level >= ATOLL_LOG_ERROR) {
    if (is_news([&] { return std::string(message); })) sql_print_error("ATOLL: %s", message);
  } else if (level == ATOLL_LOG_WARNING) {
    if (is_news([&] { return without_numbers(message); })) sql_print_warning("ATOLL: %s", message);
  } else {
    sql_print_information("ATOLL: %s", message);
  }
}

}  // namespace atoll::plugin
