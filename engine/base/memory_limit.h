// How much memory this process may use.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/namespace.h"

namespace atoll {

// Bytes: the machine's memory, or less where a control group (a container, a systemd unit) limits the
// process. 1 GiB if neither can be told. Read from the system once, by the first call.
uint64_t memory_limit_bytes();

// Bytes: the least limit of the memory groups that `membership` (/proc/self/cgroup) names, and of those above
// them, in the tree at `root` (/sys/fs/cgroup), of either version of control groups. 0: none. In a container
// the tree may begin with the process's own group, whatever its name is outside, so the root's limit counts
// as well.
uint64_t group_limit_bytes(const std::filesystem::path &membership, const std::filesystem::path &root);

// What a process holds of its memory, in bytes.
struct MemoryUse {
  uint64_t limit = 0;
  uint64_t resident = 0;  // of the process, the cache included
  uint64_t cache_used = 0;
  uint64_t cache_max = 0;     // what the cache may take now
  uint64_t cache_wanted = 0;  // what its setting says
};

// Returns what the cache may take from now on, in bytes; never more than its setting says. If more than nine
// tenths of the limit are resident, the cache shrinks by what brings this down to eight tenths. If less than
// eight tenths are resident, the cache may grow again, by a quarter of what is free below eight tenths.
// 0: all of the cache would have to go.
uint64_t cache_within_limit(const MemoryUse &use);

}  // namespace atoll
