// Loads, stores and varints on plain memory, for every folder that reads or writes stored bytes.
//
// Functions that take a plain pointer do not check bounds, except load_varint(): callers check a whole region
// once and then load from it. Atoll runs on little-endian machines only (the record formats of the server are
// little-endian).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/namespace.h"

namespace atoll {

static_assert(std::endian::native == std::endian::little);

template <typename T>
inline T load_le(const void *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
inline void store_le(void *to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Reads `length` (0 to 8) little-endian bytes as an unsigned number.
inline uint64_t load_le_bytes(const uint8_t *from, size_t length) {
  switch (length) {
    case 1:
      return from[0];
    case 2:
      return load_le<uint16_t>(from);
    case 4:
      return load_le<uint32_t>(from);
    case 8:
      return load_le<uint64_t>(from);
    default:
      break;
  }
  uint64_t value = 0;
  for (size_t i = length; i-- > 0;) value = value << 8 | from[i];
  return value;
}

inline void store_le_bytes(uint8_t *to, uint64_t value, size_t length) {
  if (length == 4) return store_le(to, static_cast<uint32_t>(value));
  if (length == 8) return store_le(to, value);
  for (size_t i = 0; i < length; ++i, value >>= 8) to[i] = static_cast<uint8_t>(value);
}

// Reads `length` (1 to 8) big-endian bytes as an unsigned number.
inline uint64_t load_be_bytes(const uint8_t *from, size_t length) {
  if (length == 4) return __builtin_bswap32(load_le<uint32_t>(from));
  if (length == 8) return __builtin_bswap64(load_le<uint64_t>(from));
  uint64_t value = 0;
  for (size_t i = 0; i < length; ++i) value = value << 8 | from[i];
  return value;
}

// Returns the first 8 bytes as a big-endian number; a shorter text is filled up with zeros. When the numbers
// of two texts differ, they order as the texts do byte by byte.
inline uint64_t load_be_start(std::string_view bytes) {
  uint64_t start = 0;
  if (bytes.size() >= sizeof start)
    std::memcpy(&start, bytes.data(), sizeof start);
  else if (!bytes.empty())
    std::memcpy(&start, bytes.data(), bytes.size());
  return __builtin_bswap64(start);
}

inline void store_be_bytes(uint8_t *to, uint64_t value, size_t length) {
  if (length == 4) return store_le(to, __builtin_bswap32(static_cast<uint32_t>(value)));
  if (length == 8) return store_le(to, __builtin_bswap64(value));
  for (size_t i = length; i-- > 0; value >>= 8) to[i] = static_cast<uint8_t>(value);
}

// As memcpy, but fast for the usual widths of columns. A null source is allowed when `length` is 0.
inline void copy_bytes(uint8_t *to, const uint8_t *from, size_t length) {
  switch (length) {
    case 0:
      return;
    case 1:
      *to = *from;
      return;
    case 2:
      std::memcpy(to, from, 2);
      return;
    case 3:
      std::memcpy(to, from, 2);
      to[2] = from[2];
      return;
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    default:
      std::memcpy(to, from, length);
      return;
  }
}

inline constexpr size_t kVarintBytesMax = 10;  // ceil(64 / 7): 64 bits, of which each byte holds 7

// Writes `value` in groups of 7 bits, the lowest group first; bit 7 is set in all bytes but the last. Returns
// the number of bytes.
inline size_t store_varint(uint8_t *to, uint64_t value) {
  size_t length = 0;
  while (value >= 0x80) {
    to[length++] = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  to[length++] = static_cast<uint8_t>(value);
  return length;
}

inline void append_varint(std::string *out, uint64_t value) {
  uint8_t bytes[kVarintBytesMax];
  out->append(reinterpret_cast<const char *>(bytes), store_varint(bytes, value));
}

// Returns `bytes` as text, with two hexadecimal digits for each byte.
inline std::string to_hex(std::string_view bytes, const char *digits = "0123456789ABCDEF") {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    text.push_back(digits[static_cast<uint8_t>(byte) >> 4]);
    text.push_back(digits[byte & 15]);
  }
  return text;
}

// Reads a varint from [from, end). Returns the number of bytes that it takes; 0 when the varint is cut off,
// too long, or not in its shortest form. Longer forms are refused, so that equal numbers have equal stored
// bytes.
inline size_t load_varint(const uint8_t *from, const uint8_t *end, uint64_t *value) {
  uint64_t result = 0;
  for (size_t i = 0; i < kVarintBytesMax && from + i < end; ++i) {
    const uint64_t bits = from[i] & 0x7F;
    if (i == kVarintBytesMax - 1 && bits > 1) return 0;
    result |= bits << (7 * i);
    if (from[i] & 0x80) continue;
    if (i > 0 && bits == 0) return 0;
    *value = result;
    return i + 1;
  }
  return 0;
}

}  // namespace atoll
