// See background.h.
#include "handler/server.h"

#include <pthread.h>

#include "base/border/border.h"
#include "base/interrupt.h"
#include "handler/server/callback.h"
#include "plugin/host/background.h"

namespace atoll::plugin {

Background::Background(std::function<void(uint64_t)> tick, std::chrono::milliseconds period)
    : tick_(std::move(tick)), period_(period), thread_([this] { run(); }) {}

Background::~Background() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Background::run() {
  pthread_setname_np(pthread_self(), "atoll-tick");
  my_thread_init();  // the server's error log wants its thread variables
  const InterruptScope interrupt(&stopping_);
  MutexLock lock(mutex_);
  for (uint64_t number = 1;
       !wake_.wait_for(lock, period_, [this]() ATOLL_REQUIRES(mutex_) { return stopping_.load(); });
       ++number) {
    lock.unlock();
    guarded([&] { tick_(number); }, handler::is_logged);
    lock.lock();
  }
  lock.unlock();
  my_thread_end();
}

}  // namespace atoll::plugin
