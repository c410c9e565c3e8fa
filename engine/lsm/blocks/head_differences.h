// The heads of a block's entries (split_block.h) as differences from the entry before.
//
// Numbers that count up, a row's number in its key or an id, change in few bytes, but in others each time,
// and cost a row 2 to 3 bytes. Their differences are the same from row to row and cost nearly nothing. Pure:
// no RocksDB, no compression. See table FMT-S1 of docs/internals/formats-rows.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/namespace.h"

namespace atoll::lsm {

// Turns each byte of keys and values in `heads` into its difference from the byte at the same place of the
// entry before, modulo 256; lengths stay. `heads` and `head_bytes` are those of split_block(), and
// `entries_bytes` those of the heads of entries. False if keys share more than there is: not a block.
bool subtract_heads(const std::string &heads, size_t entries_bytes, uint32_t head_bytes,
                    std::string *differing);

// The reverse, in place. False if the lengths contradict each other: damage.
bool add_heads(char *heads, size_t entries_bytes, uint32_t head_bytes);

}  // namespace atoll::lsm
