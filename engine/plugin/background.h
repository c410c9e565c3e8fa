// One thread that calls a function each second until it is stopped.
#pragma once

#include "base/namespace.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace atoll::plugin {

class Background {
 public:
  // `tick` gets the number of seconds since start; it may take longer than a second.
  explicit Background(std::function<void(uint64_t)> tick);
  ~Background();  // Waits for a running tick.
  Background(const Background &) = delete;
  Background &operator=(const Background &) = delete;

 private:
  void run();

  std::function<void(uint64_t)> tick_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;     // last: uses all of the above
};

}  // namespace atoll::plugin
