// One thread that calls a function each second, or in another rhythm, until it is stopped.
#pragma once

#include "base/namespace.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace atoll::plugin {

class Background {
 public:
  // `tick` gets the number of periods since start; it may take longer than a period.
  explicit Background(std::function<void(uint64_t)> tick,
                      std::chrono::milliseconds period = std::chrono::seconds(1));
  ~Background();  // Waits for a running tick.
  Background(const Background &) = delete;
  Background &operator=(const Background &) = delete;

 private:
  void run();

  const std::function<void(uint64_t)> tick_;
  const std::chrono::milliseconds period_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;     // last: uses all of the above
};

}  // namespace atoll::plugin
