// Goal:   memory that threads have freed does not stay resident.
// Method: threads take and free buffers at random, while another thread calls return_free_memory(), as in the
//         server. The test prints its seed.
#include "plugin/host/heap.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace atoll::plugin {
namespace {

constexpr int kThreads = 2;
constexpr int kRounds = 20;
// Enough calls of return_free_memory() for it to count the bytes in use twice: it does so at each eighth
// call.
constexpr int kLooksToSettle = 16;
// Less than 256 KiB, the lowest size from which bound_heap() lets the C library map a buffer by itself. So
// these buffers are always in heaps.
constexpr size_t kBufferBytes = 255 << 10;
// After each buffer, a thread takes a small one of this size, which it keeps. It keeps the freed buffers from
// merging into the free end of the heap, which the C library gives back by itself.
constexpr size_t kPinBytes = 2000;
// What return_free_memory() lets stay: a growth below 32 MiB, and the free ends of the heaps.
constexpr uint64_t kFreeBytesMax = 48 << 20;
// malloc_trim() gives back whole pages. A pin lies in up to two pages, and the C library's note of the free
// memory behind it may lie in a third one.
constexpr uint64_t kPinPages = 3;

using Buffer = std::unique_ptr<char[]>;

unsigned int seed() {
  const char *given = std::getenv("ATOLL_TEST_SEED");
  return given == nullptr ? std::random_device{}()
                          : static_cast<unsigned int>(std::strtoul(given, nullptr, 10));
}

uint64_t page_bytes() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0, resident_pages = 0;
  statm >> pages >> resident_pages;
  return resident_pages * page_bytes();
}

void settle() {
  for (int look = 0; look < kLooksToSettle; ++look) return_free_memory();
}

// Takes up to 128 MB of buffers and frees a random part of the buffers that it has, six times. At the end it
// has freed everything but `pins`.
void take_and_free(unsigned int dice_seed, std::vector<Buffer> *pins) {
  std::mt19937 dice(dice_seed);
  std::vector<Buffer> buffers;
  for (int step = 0; step < 6; ++step) {
    for (size_t count = dice() % 500; count > 0; --count) {
      buffers.emplace_back(new char[kBufferBytes]);
      std::memset(buffers.back().get(), 1, kBufferBytes);
      pins->emplace_back(new char[kPinBytes]);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(dice() % 30));
    buffers.resize(dice() % (buffers.size() + 1));
  }
}

TEST(Heap, KeepsNothingOfWhatThreadsFreed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has a heap of its own";
#endif
  bound_heap();
  settle();
  const uint64_t before = resident_bytes();
  const unsigned int first_seed = seed();
  std::cout << "ATOLL_TEST_SEED=" << first_seed << std::endl;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::vector<Buffer>> pins(kThreads);
    std::vector<std::thread> threads;
    std::atomic<int> running = kThreads;
    for (int thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        take_and_free(first_seed + static_cast<unsigned int>(round * kThreads + thread), &pins[thread]);
        --running;
      });
    while (running > 0) {
      return_free_memory();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    for (std::thread &thread : threads) thread.join();
    settle();
    size_t pin_count = 0;
    for (const std::vector<Buffer> &of_thread : pins) pin_count += of_thread.size();
    ASSERT_LE(resident_bytes(), before + kFreeBytesMax + pin_count * kPinPages * page_bytes())
        << "round " << round;
  }
}

}  // namespace
}  // namespace atoll::plugin
