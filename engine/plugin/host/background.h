// A thread that calls a function once a second, or with another period, until the object is destroyed.
#pragma once

#include <chrono>
#include <functional>

#include "base/threads/repeated_task.h"

namespace atoll::plugin {

class Background {
 public:
  // `tick` gets the number of the call, from 1. The next call begins one period after the end of the call
  // before, so a call can take longer than a period.
  explicit Background(std::function<void(uint64_t)> tick,
                      std::chrono::milliseconds period = std::chrono::seconds(1));

 private:
  void tick();

  const std::function<void(uint64_t)> tick_;
  uint64_t number_ = 0;
  RepeatedTask task_;  // last, so that its thread ends before the other members are destroyed
};

}  // namespace atoll::plugin
