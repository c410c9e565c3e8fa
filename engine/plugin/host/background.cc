// See background.h.
#include "handler/server.h"

#include "base/border/border.h"
#include "handler/server/callback.h"
#include "plugin/host/background.h"

namespace atoll::plugin {
namespace {

// Registers the calling thread with the server's library mysys. Writing to the server's error log uses
// variables that mysys keeps for each thread.
struct ServerThread {
  ServerThread() { my_thread_init(); }
  ~ServerThread() { my_thread_end(); }
};

}  // namespace

Background::Background(std::function<void(uint64_t)> tick, std::chrono::milliseconds period)
    : tick_(std::move(tick)), task_("atoll-tick", period, [this] { this->tick(); }) {}

void Background::tick() {
  thread_local const ServerThread is_known_to_the_server;
  guarded([this] { tick_(++number_); }, handler::is_logged);
}

}  // namespace atoll::plugin
