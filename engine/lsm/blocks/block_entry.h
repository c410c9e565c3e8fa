// One entry of a data block of RocksDB: three lengths, key bytes, value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/namespace.h"

namespace atoll::lsm {

struct BlockEntry {
  const char *start;    // its lengths
  size_t shared_bytes;  // of the key, as in the entry before
  size_t prefix_bytes;  // lengths and key bytes
  size_t key_bytes;     // those that are not shared; the end of the prefix
  size_t value_bytes;
  const char *value() const { return start + prefix_bytes; }
};

// Reads the three lengths at `start`. The lengths and the key bytes must lie within `available` bytes; the
// value may lie elsewhere. Returns false if they do not.
inline bool read_entry(const char *start, size_t available, BlockEntry *entry) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(start);
  uint64_t shared_bytes;
  uint64_t key_bytes;
  uint64_t value_bytes;
  size_t length;
  if (available >= 3 && ((bytes[0] | bytes[1] | bytes[2]) & 0x80) == 0) {
    shared_bytes = bytes[0];
    key_bytes = bytes[1];
    value_bytes = bytes[2];
    length = 3;
  } else {
    const uint8_t *const end = bytes + available;
    const size_t first = load_varint(bytes, end, &shared_bytes);
    if (first == 0) return false;
    const size_t second = load_varint(bytes + first, end, &key_bytes);
    if (second == 0) return false;
    const size_t third = load_varint(bytes + first + second, end, &value_bytes);
    if (third == 0) return false;
    length = first + second + third;
  }
  if (key_bytes > available - length || value_bytes > UINT32_MAX) return false;
  *entry = {start, shared_bytes, length + key_bytes, key_bytes, value_bytes};
  return true;
}

}  // namespace atoll::lsm
