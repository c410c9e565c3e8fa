// One thread that calls a function each second, or in another rhythm, until it is stopped.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/mutex.h"
#include "base/namespace.h"

namespace atoll::plugin {

class Background {
 public:
  // `tick` gets the number of periods since start; it may take longer than a period.
  explicit Background(std::function<void(uint64_t)> tick,
                      std::chrono::milliseconds period = std::chrono::seconds(1));
  // Waits for a running tick, whose reads of the bucket end soon: see base/interrupt.h.
  ~Background();
  Background(const Background &) = delete;
  Background &operator=(const Background &) = delete;

 private:
  void run();

  const std::function<void(uint64_t)> tick_;
  const std::chrono::milliseconds period_;
  Mutex mutex_;
  Condition wake_;
  std::atomic<bool> stopping_{false};  // set under mutex_
  std::thread thread_;                 // last: uses all of the above
};

}  // namespace atoll::plugin
