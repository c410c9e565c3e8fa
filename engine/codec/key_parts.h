// The encodings of single key values, tables K-* of docs/internals/formats.md. Private to KeyCodec.
//
// Every function writes or reads the ascending form. `invert` is 0x00 for that and 0xFF for a descending
// part; readers undo it byte by byte, writers leave it to invert_bytes() on the finished part.
// Readers never touch memory outside the view they are given and return false or 0 on bad bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/namespace.h"

namespace atoll::codec {

// --- Numbers -----------------------------------------------------------------------------------------

// The bits of an IEEE number rearranged so that unsigned order is numeric order; -0.0 becomes 0.0 and
// every NaN one value above infinity.
uint64_t ordered_double(uint64_t bits);
uint64_t double_from_ordered(uint64_t ordered);
uint32_t ordered_float(uint32_t bits);
uint32_t float_from_ordered(uint32_t ordered);

// --- Binary groups (FMT-K4): 8 bytes, zero-filled, then a count 0..8, or 9 if another group follows ---

inline constexpr size_t kBinaryGroup = 8;
inline constexpr uint8_t kMoreGroups = 9;

void append_binary_groups(std::string_view bytes, std::string *out);
// The bytes all groups at `key` take, 0 if they are cut or wrong.
size_t skip_binary_groups(std::string_view key, uint8_t invert);
// The length of the value in `groups`, which is what skip_binary_groups() measured.
size_t binary_groups_length(std::string_view groups, uint8_t invert);

// --- Padded groups (FMT-K5): `group` weight bytes, filled with spaces, then a Rest --------------------

// How all that follows a group compares with an endless run of spaces.
enum Rest : uint8_t { kRestLess = 1, kRestEnds = 2, kRestGreater = 3 };

// Weight bytes in one group: the multiple of the space's weight length that is nearest to `wanted`.
size_t padded_group(size_t space_length, size_t wanted = 8);
// Weight bytes in one group of a level behind the first. These levels usually have the weights of spaces
// only, which take one group, so the group is small.
inline constexpr size_t kLaterLevelGroup = 4;

// The length of `weights` without trailing space weights.
size_t length_without_spaces(std::string_view weights, std::string_view space);

// Requires: `weights` does not end in a space weight; its length is a multiple of space.size().
void append_padded_groups(std::string_view weights, std::string_view space, size_t group, std::string *out);
size_t skip_padded_groups(std::string_view key, size_t group, uint8_t invert);
size_t padded_groups_length(std::string_view groups, std::string_view space, uint8_t invert);

// --- Both --------------------------------------------------------------------------------------------

// Copies the first `length` value bytes out of groups of `group` bytes.
void copy_groups(std::string_view groups, size_t group, uint8_t invert, size_t length, uint8_t *to);

void invert_bytes(std::string *key, size_t from);

}  // namespace atoll::codec
