// One entry of a data block of RocksDB: three lengths, key bytes, value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/namespace.h"

namespace atoll::lsm {

struct BlockEntry {
  const char *start;    // where the three lengths begin
  size_t shared_bytes;  // how many bytes the key shares with the previous entry's key; they are not stored
  size_t prefix_bytes;  // size of the lengths and the stored key bytes
  size_t key_bytes;     // number of stored key bytes; they follow the lengths
  size_t value_bytes;
  const char *value() const { return start + prefix_bytes; }
};

// Reads the three lengths of the entry at `start`. Returns false if the lengths and the stored key bytes do
// not fit in `available` bytes, or if the value is 4 GiB or longer. The value itself may lie elsewhere.
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
