// See memory_limit.h.
#include "base/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>

#include "base/border/border.h"
#include "base/file.h"

namespace atoll {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kUnknownMemoryBytes = 1ull << 30;

// Returns the limit that `file` contains. Version 2 of control groups writes "max" for no limit, which is not
// a number: then this returns kUnlimited.
uint64_t limit_in(const std::filesystem::path &file) {
  const std::string text = content_of(file);
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  return error == std::errc() && bytes > 0 ? bytes : kUnlimited;
}

// Returns the least limit of the control group `path` in the tree at `root`, and of all groups above it.
uint64_t limit_along(const std::filesystem::path &root, std::string_view path, const char *file) {
  uint64_t least = limit_in(root / file);
  std::filesystem::path group = root;
  for (const std::filesystem::path &name : std::filesystem::path(path).relative_path()) {
    group /= name;
    least = std::min(least, limit_in(group / file));
  }
  return least;
}

bool has_memory(std::string_view controllers) {
  std::stringstream names{std::string(controllers)};
  for (std::string name; std::getline(names, name, ',');)
    if (name == "memory") return true;
  return false;
}

uint64_t machine_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_size <= 0) return kUnknownMemoryBytes;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_size);
}

}  // namespace

uint64_t group_limit_bytes(const std::filesystem::path &membership, const std::filesystem::path &root) {
  // Each line is number:controllers:path. A line of version 2 has the number 0 and names no controllers.
  uint64_t least = kUnlimited;
  std::stringstream lines(content_of(membership));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const std::string_view path = std::string_view(line).substr(second + 1);
    if (has_memory(controllers))
      least = std::min(least, limit_along(root / "memory", path, "memory.limit_in_bytes"));
    else if (line.starts_with("0:"))
      least = std::min(least, limit_along(root, path, "memory.max"));
  }
  return least == kUnlimited ? 0 : least;
}

uint64_t memory_limit_bytes() {
  static const uint64_t limit = [] {
    const uint64_t machine = machine_memory_bytes();
    // This is called first for the defaults of system variables, while the library is being loaded. An
    // exception would not be caught there.
    const uint64_t group = guarded([] { return group_limit_bytes("/proc/self/cgroup", "/sys/fs/cgroup"); },
                                   [](const Status &) { return uint64_t{0}; });
    return group == 0 ? machine : std::min(machine, group);
  }();
  return limit;
}

uint64_t cache_within_limit(const MemoryUse &use) {
  const uint64_t high = use.limit / 10 * 9;
  const uint64_t low = use.limit / 10 * 8;
  const uint64_t max = std::min(use.cache_max, use.cache_wanted);
  if (use.resident > high) {
    const uint64_t excess = use.resident - low;
    return std::min(max, use.cache_used > excess ? use.cache_used - excess : 0);
  }
  if (use.resident >= low) return max;
  return std::min(use.cache_wanted, max + (low - use.resident) / 4);
}

}  // namespace atoll
