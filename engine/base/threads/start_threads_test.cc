// Tests that start_threads() starts as many threads as the process gets, and returns their number.
#include "base/threads/start_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

namespace atoll {
namespace {

// A thread body that throws after `limit` copies. Each thread needs a copy, so this acts as if the process
// got only `limit` threads.
struct Limited {
  std::atomic<size_t> *copies, *runs;
  size_t limit;
  Limited(std::atomic<size_t> *copies, std::atomic<size_t> *runs, size_t limit)
      : copies(copies), runs(runs), limit(limit) {}
  Limited(const Limited &other) : copies(other.copies), runs(other.runs), limit(other.limit) {
    if ((*copies)++ >= limit) throw std::system_error(EAGAIN, std::generic_category());
  }
  Limited(Limited &&other) noexcept = default;
  void operator()(size_t) const { ++*runs; }
};

size_t runs_with_limit(size_t limit, size_t wanted) {
  std::atomic<size_t> copies{0}, runs{0};
  std::vector<std::thread> threads;
  EXPECT_EQ(start_threads(&threads, wanted, Limited(&copies, &runs, limit)), std::min(limit, wanted));
  for (std::thread &thread : threads) thread.join();
  return runs;
}

TEST(Threads, StartsAllThatAreWanted) { EXPECT_EQ(runs_with_limit(9, 3), 3u); }
TEST(Threads, GoesOnWithThoseThatCouldBeStarted) { EXPECT_EQ(runs_with_limit(2, 3), 2u); }
TEST(Threads, NoneIsNoError) { EXPECT_EQ(runs_with_limit(0, 3), 0u); }

}  // namespace
}  // namespace atoll
