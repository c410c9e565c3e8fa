// Threads that help with work which fewer threads can do too.
#pragma once

#include <exception>
#include <future>
#include <thread>
#include <vector>

#include "base/namespace.h"

namespace atoll {

// How std::async() runs work: without a thread for it, the thread that waits for the result does it.
constexpr auto kOwnThreadIfPossible = std::launch::async | std::launch::deferred;

// Starts threads that run body(number) until *threads has `wanted`, and returns how many it has: fewer, also
// none, when the process gets no more of them (a limit of tasks). The caller goes on with those, and joins
// them. Never throws.
template <typename Body>
size_t start_threads(std::vector<std::thread> *threads, size_t wanted, const Body &body) noexcept {
  try {
    threads->reserve(wanted);
    while (threads->size() < wanted) threads->emplace_back(body, threads->size());
  } catch (const std::exception &) {  // std::system_error, std::bad_alloc
  }
  return threads->size();
}

}  // namespace atoll
