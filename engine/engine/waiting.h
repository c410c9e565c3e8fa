// More about an engine that does not run (running.h): since when, and for how long it still waits.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/status.h"

namespace atoll::engine {

// As set_not_running(), while the engine waits until another server has shown no sign of life for `left`
// more: the message of ready() says how many seconds are left.
void set_waiting(const Status &why, std::chrono::milliseconds left);
// When set_not_running() or set_waiting() was called last, in seconds since 1970; 0: never.
int64_t not_running_since_s();

}  // namespace atoll::engine
