// The wall clock, only for times that are shown to people: correctness never depends on it.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/namespace.h"

namespace atoll {

// Microseconds since 1970.
inline uint64_t now_us() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count());
}

}  // namespace atoll
