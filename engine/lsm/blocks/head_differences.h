// Replaces the heads of a block's entries (split_block.h) by their differences from the entry before.
//
// A number that counts up, such as a row's number in its key or an id, changes in few bytes from row to row,
// but to other values each time. These bytes cost 2 to 3 bytes a row. Their differences are the same from row
// to row and cost nearly nothing. Pure: no RocksDB, no compression. See table FMT-S1 of
// docs/internals/formats-rows.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/namespace.h"

namespace atoll::lsm {

// Replaces each byte of the keys and values in `heads` by its difference, modulo 256, from the byte at the
// same place of the entry before. The lengths stay as they are. `heads` and `head_bytes` are those of
// split_block(); the first `entries_bytes` bytes of `heads` are the heads of entries. Returns false if an
// entry shares more key bytes than the key before it has: then `heads` is not from a block.
bool subtract_heads(const std::string &heads, size_t entries_bytes, uint32_t head_bytes,
                    std::string *differing);

// The reverse of subtract_heads(), in place. False if the lengths contradict each other: damage.
bool add_heads(char *heads, size_t entries_bytes, uint32_t head_bytes);

}  // namespace atoll::lsm
