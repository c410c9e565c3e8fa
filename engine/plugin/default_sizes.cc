// See default_sizes.h.
#include "plugin/default_sizes.h"

#include <algorithm>
#include <thread>

#include "base/memory_limit.h"

namespace atoll::plugin {
namespace {

constexpr unsigned long long kMiB = 1024ULL * 1024;
constexpr unsigned long long kGiB = 1024 * kMiB;
// What a server needs beside the block cache while it writes much: its own memory, memtables, compactions.
constexpr unsigned long long kOtherMemory = 256 * kMiB;

}  // namespace

unsigned long long default_block_cache_size() {
  const unsigned long long memory = memory_limit_bytes();
  const unsigned long long rest = memory - std::min<unsigned long long>(memory, kOtherMemory);
  return std::clamp<unsigned long long>(std::min(memory / 4, rest) / kMiB * kMiB, 64 * kMiB, kGiB);
}

unsigned long long default_transaction_memory() {
  return std::clamp<unsigned long long>(memory_limit_bytes() / 16 / kMiB * kMiB, 64 * kMiB, kGiB);
}

unsigned int default_scan_threads() { return std::clamp(std::thread::hardware_concurrency(), 1U, 8U); }

}  // namespace atoll::plugin
