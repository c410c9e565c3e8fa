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

}  // namespace atoll
