// Starts helper threads for work that fewer threads, or the caller alone, can do as well.
#pragma once

#include <exception>
#include <future>
#include <thread>
#include <vector>

#include "base/namespace.h"

namespace atoll {

// The policy for std::async(): when the process gets no thread for the work, the thread that waits for the
// result does it.
constexpr auto kOwnThreadIfPossible = std::launch::async | std::launch::deferred;

// Starts threads that run body(number) until *threads has `wanted` threads. Returns the number of threads in
// *threads: fewer than `wanted`, or none, when the process gets no more threads (a limit of tasks). The
// caller does the work with the threads that it has got, and joins them. Never throws.
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
