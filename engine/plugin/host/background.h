// One thread that calls a function each second, or in another rhythm, until it is stopped.
#pragma once

#include <chrono>
#include <functional>

#include "base/threads/repeated_task.h"

namespace atoll::plugin {

class Background {
 public:
  // `tick` gets the number of periods since start; it may take longer than a period.
  explicit Background(std::function<void(uint64_t)> tick,
                      std::chrono::milliseconds period = std::chrono::seconds(1));

 private:
  void tick();

  const std::function<void(uint64_t)> tick_;
  uint64_t number_ = 0;
  RepeatedTask task_;  // last: uses all of the above
};

}  // namespace atoll::plugin
