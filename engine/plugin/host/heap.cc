// See heap.h.
#include "plugin/host/heap.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "base/log.h"
#include "base/memory_limit.h"

namespace atoll::plugin {

namespace {

// kMappedBytesMin: the size from which the C library maps a buffer by itself. kFreeEndBytesMax: how much free
// memory each heap keeps at its end. A scan or an upload takes and frees the same buffers again and again,
// which must not cost page faults each time. With 1 and 2 MiB an ALTER from ATOLL to InnoDB took 1.10 times
// as long; with these sizes 1.02 times, which is less than the difference between two runs.
constexpr int kMappedBytesMin = 4 << 20;
constexpr int kFreeEndBytesMax = 8 << 20;
// Lower limits for a process whose memory is limited to less than 1 GiB (memory_limit_bytes()), because in a
// small container memory matters more than page faults. Measured with the limits above: beside 228 MiB in
// buffers, another 80 MiB stayed resident.
constexpr uint64_t kSmallMemoryBytes = 1ull << 30;
constexpr int kSmallMappedBytesMin = 256 << 10;
constexpr int kSmallFreeEndBytesMax = 1 << 20;

bool is_set_by_administrator() {
  for (const char *name :
       {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

// malloc_trim() is called only when unused memory has grown by at least this much, because the call costs
// some milliseconds for each gigabyte, and using the returned pages again costs page faults.
constexpr int64_t kGrowthBytesMin = 32 << 20;
constexpr int64_t kGrowthPart = 8;  // the growth must also be at least an eighth of the resident memory
// Counting the bytes in use blocks each heap for a moment. So return_free_memory() counts them only at every
// eighth call, which is every 2 seconds, and when the process has grown.
constexpr int kLooksPerCount = 8;
// When memory is nearly used up, the kernel would end the process next. Then counting at each call is worth
// its cost, and a growth of 8 MiB is enough for malloc_trim().
constexpr int64_t kTightGrowthBytesMin = 8 << 20;

bool is_tight(int64_t bytes) { return bytes > static_cast<int64_t>(memory_limit_bytes()) / 4 * 3; }

// Returns the resident memory of this process; 0: unknown.
int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0, resident_pages = 0;
  statm >> pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

int64_t used_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace

uint64_t return_free_memory() {
  // Unused bytes are resident bytes that are in no buffer. Code, stacks and memory that other libraries have
  // mapped are among them, so only the growth of the unused bytes counts. The two static numbers are the
  // resident and the unused bytes from which the growth is measured.
  static int64_t settled_bytes = 0, settled_unused_bytes = 0;
  static int looks = 0;
  const int64_t bytes = resident_bytes();
  if (bytes == 0) return 0;
  const bool tight = is_tight(bytes);
  const int64_t growth =
      tight ? kTightGrowthBytesMin : std::max(kGrowthBytesMin, settled_bytes / kGrowthPart);
  if (++looks % kLooksPerCount != 0 && !tight && bytes < settled_bytes + growth) {
    settled_bytes = std::min(settled_bytes, bytes);
    return static_cast<uint64_t>(bytes);
  }
  const int64_t used = used_bytes();
  if (bytes - used < settled_unused_bytes + growth) {
    settled_bytes = bytes;
    settled_unused_bytes = std::min(settled_unused_bytes, bytes - used);
    return static_cast<uint64_t>(bytes);
  }
  (void)malloc_trim(0);
  settled_bytes = resident_bytes();
  // Other threads may take or free memory during malloc_trim(). The larger of the two counts of used bytes
  // makes the stored count of unused bytes low, so at the next call such memory counts as growth.
  settled_unused_bytes = settled_bytes - std::max(used, used_bytes());
  return static_cast<uint64_t>(settled_bytes);
}

void bound_block_cache(lsm::Upkeep *upkeep, uint64_t wanted_bytes, uint64_t resident) {
  static bool is_said = false;
  MemoryUse use;
  use.limit = memory_limit_bytes();
  use.resident = resident;
  use.cache_used = upkeep->block_cache_bytes_used();
  use.cache_max = upkeep->block_cache_bytes();
  use.cache_wanted = wanted_bytes;
  const uint64_t bytes = cache_within_limit(use);
  if (bytes != use.cache_max) upkeep->set_block_cache_bytes(bytes);
  if (bytes < use.cache_max && !is_said)
    log_warning(
        "the server has " + std::to_string(use.resident >> 20) + " of " + std::to_string(use.limit >> 20) +
        " MiB of memory: the block cache is held below atoll_block_cache_size while that lasts. A lower "
        "setting, or more memory, avoids this");
  is_said = bytes < wanted_bytes;
}

void bound_heap() {
  if (is_set_by_administrator()) return;
  const bool is_small = memory_limit_bytes() < kSmallMemoryBytes;
  (void)mallopt(M_MMAP_THRESHOLD, is_small ? kSmallMappedBytesMin : kMappedBytesMin);
  (void)mallopt(M_TRIM_THRESHOLD, is_small ? kSmallFreeEndBytesMax : kFreeEndBytesMax);
  (void)mallopt(M_ARENA_MAX, static_cast<int>(std::max(2u, std::thread::hardware_concurrency())));
}

}  // namespace atoll::plugin
