#include "lsm/blocks/head_differences.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "lsm/blocks/block_entry.h"

namespace atoll::lsm {
namespace {

constexpr uint64_t kHighBits = 0x8080808080808080;

// Add the eight bytes of `b` to those of `a`, or subtract them, each byte for itself: nothing is carried from
// one byte to the next.
uint64_t sums(uint64_t a, uint64_t b) {
  return ((a & ~kHighBits) + (b & ~kHighBits)) ^ ((a ^ b) & kHighBits);
}
uint64_t differences(uint64_t a, uint64_t b) {
  return ((a | kHighBits) - (b & ~kHighBits)) ^ ((a ^ ~b) & kHighBits);
}

// Replaces the bytes of `to` by eight(to, other): eight bytes at a time, and the last bytes one by one.
template <typename Eight>
void combine(char *to, const char *other, size_t length, Eight eight) {
  for (; length >= sizeof(uint64_t); length -= sizeof(uint64_t)) {
    store_le(to, eight(load_le<uint64_t>(to), load_le<uint64_t>(other)));
    to += sizeof(uint64_t);
    other += sizeof(uint64_t);
  }
  for (; length > 0; --length, ++to, ++other)
    *to = static_cast<char>(eight(static_cast<uint8_t>(*to), static_cast<uint8_t>(*other)));
}

// The key of the entry that was read last. The next entry stores only the bytes after the prefix that its key
// shares with this key.
class LastKey {
 public:
  // Sets *old to the last key's bytes after the shared prefix: the next entry's stored key bytes replace
  // them. Returns false if the next entry shares more bytes than the last key has.
  bool find(size_t shared_bytes, std::string_view *old) const {
    if (shared_bytes > key_.size()) return false;
    *old = std::string_view(key_).substr(shared_bytes);
    return true;
  }
  void replace(size_t shared_bytes, const char *bytes, size_t length) {
    key_.resize(shared_bytes);
    key_.append(bytes, length);
  }

 private:
  std::string key_;
};

// Combines each key and value in `heads`, in place, with the key and value of the previous entry. Reads the
// plain bytes of the previous entry from `plain`. If `eight` turns differences into plain bytes, `plain` is
// `heads` itself: the previous entry there consists of plain bytes already. Returns false if the lengths of
// the entries contradict each other.
template <typename Eight>
bool combine_entries(char *heads, const char *plain, size_t entries_bytes, uint32_t head_bytes, Eight eight) {
  LastKey last_key;
  std::string_view last_value;
  for (size_t position = 0; position < entries_bytes;) {
    BlockEntry entry;
    const size_t available = entries_bytes - position;
    if (!read_entry(heads + position, available, &entry)) return false;
    const size_t kept = std::min(entry.value_bytes, size_t{head_bytes});
    std::string_view old_key;
    if (kept > available - entry.prefix_bytes || !last_key.find(entry.shared_bytes, &old_key)) return false;
    const size_t key_at = position + entry.prefix_bytes - entry.key_bytes;
    const size_t value_at = position + entry.prefix_bytes;
    combine(heads + key_at, old_key.data(), std::min(entry.key_bytes, old_key.size()), eight);
    combine(heads + value_at, last_value.data(), std::min(kept, last_value.size()), eight);
    last_key.replace(entry.shared_bytes, plain + key_at, entry.key_bytes);
    last_value = {plain + value_at, kept};
    position = value_at + kept;
  }
  return true;
}

}  // namespace

bool subtract_heads(const std::string &heads, size_t entries_bytes, uint32_t head_bytes,
                    std::string *differing) {
  *differing = heads;
  return combine_entries(differing->data(), heads.data(), entries_bytes, head_bytes, differences);
}

bool add_heads(char *heads, size_t entries_bytes, uint32_t head_bytes) {
  return combine_entries(heads, heads, entries_bytes, head_bytes, sums);
}

}  // namespace atoll::lsm
