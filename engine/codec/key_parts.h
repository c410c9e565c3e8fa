// The encodings of single key values, tables FMT-K* of docs/internals/formats-rows.md. Private to KeyCodec.
//
// Writers write the ascending form. The caller turns a finished part into its descending form by
// invert_bytes(). Readers XOR each byte with `invert`, which is 0x00 for an ascending and 0xFF for a
// descending part. Readers never touch memory outside the view they are given. skip_binary_groups() and
// skip_padded_groups() return 0 on bad bytes; the other readers require bytes that these two have accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/namespace.h"

namespace atoll::codec {

// --- Numbers -----------------------------------------------------------------------------------------

// Rearranges the bits of an IEEE number so that unsigned order is numeric order. -0.0 becomes 0.0, and every
// NaN becomes one value above infinity.
uint64_t ordered_double(uint64_t bits);
uint64_t double_from_ordered(uint64_t ordered);
uint32_t ordered_float(uint32_t bits);
uint32_t float_from_ordered(uint32_t ordered);

// --- Binary groups (FMT-K4): 8 bytes, zero-filled, then a count 0..8, or 9 if another group follows ---

inline constexpr size_t kBinaryGroup = 8;  // bytes of a group, without the count
inline constexpr uint8_t kMoreGroups = 9;  // the count of a group that another group follows

void append_binary_groups(std::string_view bytes, std::string *out);
// The length of all groups at the start of `key`; 0 if a group is cut off or malformed.
size_t skip_binary_groups(std::string_view key, uint8_t invert);
// The length of the value that is encoded in `groups`. Requires: `groups` are exactly the bytes whose number
// skip_binary_groups() has returned.
size_t binary_groups_length(std::string_view groups, uint8_t invert);

// --- Padded groups (FMT-K5): `group` weight bytes, filled with spaces, then a Rest --------------------

// The byte after each padded group: how the text after the group compares with endless spaces, less, equal or
// greater. kRestEnds means equal; no other group follows then.
enum Rest : uint8_t { kRestLess = 1, kRestEnds = 2, kRestGreater = 3 };

// Weight bytes in one group: the multiple of the space's weight length that is nearest to `wanted`.
size_t padded_group(size_t space_length, size_t wanted = 8);
// Weight bytes in one group of the second level of a collation and of each later level. These levels usually
// contain only the weights of spaces, which take one group whatever its length, so the group is small.
inline constexpr size_t kLaterLevelGroup = 4;

// The length of `weights` without trailing space weights.
size_t length_without_spaces(std::string_view weights, std::string_view space);

// Requires: `weights` does not end in a space weight; its length is a multiple of space.size().
void append_padded_groups(std::string_view weights, std::string_view space, size_t group, std::string *out);
// As skip_binary_groups() and binary_groups_length(), for padded groups.
size_t skip_padded_groups(std::string_view key, size_t group, uint8_t invert);
size_t padded_groups_length(std::string_view groups, std::string_view space, uint8_t invert);

// --- Binary and padded groups ------------------------------------------------------------------------

// Copies the first `length` bytes of the value from `groups` to `to`, without the byte after each group.
// `group`: how many value bytes each group has.
void copy_groups(std::string_view groups, size_t group, uint8_t invert, size_t length, uint8_t *to);

void invert_bytes(std::string *key, size_t from);

}  // namespace atoll::codec
