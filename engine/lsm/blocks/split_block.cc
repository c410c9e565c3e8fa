#include "lsm/blocks/split_block.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "lsm/blocks/block_entry.h"

namespace atoll::lsm {
namespace {

// The last 4 bytes of a block: how many restart points it has, and flags. A block with one of the flags in
// kOtherFormMask has another form: a hash index, or keys and values in sections of their own.
constexpr uint32_t kRestartCountMask = 0x0FFFFFFF;
constexpr uint32_t kOtherFormMask = 0x90000000;
constexpr size_t kCountBytes = sizeof(uint32_t);
constexpr size_t kRestartBytes = sizeof(uint32_t);

// The three parts of a block: the entries, the restart array, and the last 4 bytes (restart count and flags).
struct BlockParts {
  std::string_view entries;
  std::string_view restarts;
  std::string_view count;
};

bool find_parts(std::string_view block, BlockParts *parts) {
  if (block.size() < kCountBytes) return false;
  const uint32_t packed = load_le<uint32_t>(block.data() + block.size() - kCountBytes);
  if ((packed & kOtherFormMask) != 0) return false;
  const uint64_t restart_bytes = uint64_t{packed & kRestartCountMask} * kRestartBytes;
  if (restart_bytes > block.size() - kCountBytes) return false;
  const size_t entries_bytes = block.size() - kCountBytes - restart_bytes;
  *parts = {block.substr(0, entries_bytes), block.substr(entries_bytes, restart_bytes),
            block.substr(entries_bytes + restart_bytes)};
  return true;
}

// Calls each(entry) for every entry. Returns false if the last entry is cut off or a length is damaged.
template <typename Each>
bool for_each_entry(std::string_view entries, Each each) {
  const char *position = entries.data();
  const char *const end = position + entries.size();
  while (position < end) {
    BlockEntry entry;
    if (!read_entry(position, static_cast<size_t>(end - position), &entry)) return false;
    if (entry.value_bytes > static_cast<size_t>(end - entry.value())) return false;
    each(entry);
    position = entry.value() + entry.value_bytes;
  }
  return true;
}

// Finds out whether the restart points stand at every n-th entry, so that the restart array need not be
// stored.
class RestartPattern {
 public:
  explicit RestartPattern(std::string_view restarts) : restarts_(restarts) {}

  // Call for each entry in order, with its offset in the block.
  void see(uint32_t offset) {
    if (next_ < count() && restart(next_) == offset) {
      if (next_ == 1) interval_ = entries_;
      regular_ = regular_ && entries_ == next_ * interval_;
      ++next_;
    } else {
      regular_ = regular_ && (interval_ == 0 || entries_ % interval_ != 0);
    }
    ++entries_;
  }

  // The number of entries from one restart point to the next; 0: the restart points follow no pattern.
  uint32_t interval() const {
    if (!regular_ || next_ == 0 || next_ != count()) return 0;
    return interval_ != 0 ? interval_ : entries_;
  }

 private:
  uint32_t count() const { return static_cast<uint32_t>(restarts_.size() / kRestartBytes); }
  uint32_t restart(uint32_t index) const {
    return load_le<uint32_t>(restarts_.data() + size_t{index} * kRestartBytes);
  }

  std::string_view restarts_;  // the restart array
  uint32_t entries_ = 0;       // entries seen so far
  uint32_t next_ = 0;          // index of the first restart point that no entry has had yet
  uint32_t interval_ = 0;      // entries from the first restart point to the second; 0: not known yet
  bool regular_ = true;        // false: a restart point broke the pattern
};

// Returns how many bytes the stream of heads has after the heads of entries: the restart array if it is
// stored, and the block's last 4 bytes.
size_t bytes_behind_entries(uint32_t restart_interval, uint32_t restart_count) {
  return kCountBytes + (restart_interval != 0 ? 0 : size_t{restart_count} * kRestartBytes);
}

bool find_restart_count(std::string_view heads, uint32_t restart_interval, uint32_t *count) {
  if (heads.size() < kCountBytes) return false;
  *count = load_le<uint32_t>(heads.data() + heads.size() - kCountBytes) & kRestartCountMask;
  return bytes_behind_entries(restart_interval, *count) <= heads.size();
}

}  // namespace

uint32_t common_head_bytes(std::string_view block) {
  constexpr uint32_t kHeadBytesMax = 256;
  constexpr uint32_t kPairsMax = 128;
  BlockParts parts;
  if (!find_parts(block, &parts)) return 0;
  std::array<uint32_t, kHeadBytesMax> equal{};
  std::string_view previous;
  uint32_t pairs = 0;
  const bool whole = for_each_entry(parts.entries, [&](const BlockEntry &entry) {
    const std::string_view value(entry.value(), entry.value_bytes);
    if (!previous.empty() && !value.empty() && pairs < kPairsMax) {
      const size_t length = std::min({value.size(), previous.size(), size_t{kHeadBytesMax}});
      for (size_t i = 0; i < length; ++i) equal[i] += value[i] == previous[i];
      ++pairs;
    }
    previous = value;
  });
  if (!whole) return 0;
  uint32_t head_bytes = 0;
  for (uint32_t i = 0; i < kHeadBytesMax; ++i) {
    if (equal[i] * 2 > pairs) head_bytes = i + 1;
  }
  return head_bytes;
}

bool split_block(std::string_view block, uint32_t head_bytes, BlockStreams *streams) {
  BlockParts parts;
  if (!find_parts(block, &parts)) return false;
  streams->heads.clear();
  streams->tails.clear();
  RestartPattern pattern(parts.restarts);
  const bool whole = for_each_entry(parts.entries, [&](const BlockEntry &entry) {
    const size_t kept = std::min(entry.value_bytes, size_t{head_bytes});
    streams->heads.append(entry.start, entry.prefix_bytes + kept);
    streams->tails.append(entry.value() + kept, entry.value_bytes - kept);
    pattern.see(static_cast<uint32_t>(entry.start - block.data()));
  });
  if (!whole) return false;
  streams->entries_bytes = streams->heads.size();
  streams->restart_interval = pattern.interval();
  if (streams->restart_interval == 0) streams->heads.append(parts.restarts);
  streams->heads.append(parts.count);
  return true;
}

bool tails_position(std::string_view heads, uint32_t restart_interval, size_t tails_bytes, size_t block_bytes,
                    size_t *position) {
  uint32_t restart_count;
  if (!find_restart_count(heads, restart_interval, &restart_count)) return false;
  const size_t behind = kCountBytes + size_t{restart_count} * kRestartBytes;
  const size_t heads_of_entries = heads.size() - bytes_behind_entries(restart_interval, restart_count);
  if (heads_of_entries + tails_bytes + behind != block_bytes) return false;
  *position = heads_of_entries;
  return true;
}

bool join_block(std::string_view heads, uint32_t head_bytes, uint32_t restart_interval, size_t tails_bytes,
                char *block, size_t block_bytes) {
  uint32_t restart_count = 0;
  size_t tails_at;
  if (!tails_position(heads, restart_interval, tails_bytes, block_bytes, &tails_at)) return false;
  find_restart_count(heads, restart_interval, &restart_count);
  char *const restarts = block + tails_at + tails_bytes;
  const char *head = heads.data();
  const char *const heads_end = head + tails_at;
  const char *tail = block + tails_at;  // never lower than `out`, so that no tail is overwritten
  char *out = block;
  uint32_t restart = 0;
  for (uint32_t until_restart = 0; head < heads_end;) {
    if (restart_interval != 0 && until_restart-- == 0) {
      if (restart == restart_count) return false;
      store_le(restarts + size_t{restart++} * kRestartBytes, static_cast<uint32_t>(out - block));
      until_restart = restart_interval - 1;
    }
    BlockEntry entry;
    if (!read_entry(head, static_cast<size_t>(heads_end - head), &entry)) return false;
    const size_t kept = std::min(entry.value_bytes, size_t{head_bytes});
    const size_t rest = entry.value_bytes - kept;
    const size_t length = entry.prefix_bytes + kept;
    if (length > static_cast<size_t>(heads_end - head)) return false;
    if (rest > static_cast<size_t>(restarts - tail)) return false;
    std::memcpy(out, head, length);
    std::memmove(out + length, tail, rest);
    head += length;
    tail += rest;
    out += length + rest;
  }
  if (out != restarts || tail != restarts) return false;
  if (restart_interval != 0 && restart != restart_count) return false;
  const size_t behind = bytes_behind_entries(restart_interval, restart_count);
  char *const copied_to = block + block_bytes - behind;
  std::memcpy(copied_to, heads.data() + heads.size() - behind, behind);
  return true;
}

}  // namespace atoll::lsm
