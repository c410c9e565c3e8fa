// Goal:   the service manager gets the message that the start is in progress, and for how long. Without a
//         manager nothing happens.
// Method: the test's own sockets in place of the manager's.
#include "plugin/host/service_manager.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace atoll::plugin {
namespace {

// Returns the message that a manager receives at the socket `path`. A leading '@' stands for the zero byte
// with which the name of an abstract socket begins.
std::string heard_at(const std::string &path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int manager = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  EXPECT_EQ(::bind(manager, reinterpret_cast<const sockaddr *>(&address), length), 0);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  ask_for_more_time("waiting for an owner", std::chrono::seconds(120));
  ::unsetenv("NOTIFY_SOCKET");
  char message[256];
  const ssize_t bytes = ::recv(manager, message, sizeof(message), 0);
  ::close(manager);
  return bytes < 0 ? std::string() : std::string(message, static_cast<size_t>(bytes));
}

TEST(ServiceManagerTest, a_manager_hears_why_and_for_how_long) {
  const std::string expected = "STATUS=waiting for an owner\nEXTEND_TIMEOUT_USEC=120000000";
  const std::string number = std::to_string(::getpid());
  const std::string path = "notify-" + number;
  EXPECT_EQ(heard_at(path), expected);
  ::unlink(path.c_str());
  EXPECT_EQ(heard_at("@atoll-test-" + number), expected);
}

TEST(ServiceManagerTest, without_a_manager_nothing_happens) {
  ::unsetenv("NOTIFY_SOCKET");
  ask_for_more_time("nobody listens", std::chrono::seconds(1));
  ::setenv("NOTIFY_SOCKET", "/no/such/socket", 1);
  ask_for_more_time("nobody listens", std::chrono::seconds(1));
  ::setenv("NOTIFY_SOCKET", std::string(200, 'x').c_str(), 1);
  ask_for_more_time("nobody listens", std::chrono::seconds(1));
  ::unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace atoll::plugin
