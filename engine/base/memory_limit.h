// Finds out how much memory this process is allowed to use, and fits the block cache into it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/namespace.h"

namespace atoll {

// Returns the bytes of memory that this process may use: the machine's memory, or less when a control group
// (a container, a systemd unit) limits the process. If the size of the machine's memory cannot be read, the
// function takes it for 1 GiB. The first call reads the limit from the system; later calls return the same
// value.
uint64_t memory_limit_bytes();

// Returns the least memory limit, in bytes, of the control groups that the file `membership`
// (/proc/self/cgroup) names and of all groups above them; 0: there is no limit. `root`: the tree of the
// groups (/sys/fs/cgroup), of version 1 or 2. In a container, the process's own group may be the root of this
// tree, under whatever name the group has outside. So the root's limit counts as well.
uint64_t group_limit_bytes(const std::filesystem::path &membership, const std::filesystem::path &root);

// Input of cache_within_limit(): memory of the process, in bytes.
struct MemoryUse {
  uint64_t limit = 0;
  uint64_t resident = 0;  // resident memory of the process, including the cache
  uint64_t cache_used = 0;
  uint64_t cache_max = 0;     // the limit of the cache now, before the call
  uint64_t cache_wanted = 0;  // the limit that the user has set for the cache
};

// Returns the new limit of the cache, in bytes; never more than cache_wanted. If more than nine tenths of the
// process's limit are resident, the cache shrinks by as much as brings them down to eight tenths. If less
// than eight tenths are resident, the limit grows by a quarter of what is missing to eight tenths. 0: the
// cache would have to give up all that it holds.
uint64_t cache_within_limit(const MemoryUse &use);

}  // namespace atoll
