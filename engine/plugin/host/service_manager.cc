// Sends the messages of sd_notify(3): lines in one datagram to the socket that the environment variable
// NOTIFY_SOCKET names.
#include "plugin/host/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace atoll::plugin {

void ask_for_more_time(const std::string &why, std::chrono::seconds extension) {
  const char *const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path == nullptr || std::strlen(path) >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, path, std::strlen(path));
  if (path[0] == '@') address.sun_path[0] = '\0';  // the name of an abstract socket
  const std::string message =
      "STATUS=" + why + "\nEXTEND_TIMEOUT_USEC=" +
      std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(extension).count());
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  (void)::sendto(descriptor, message.data(), message.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr *>(&address), length);
  ::close(descriptor);
}

}  // namespace atoll::plugin
