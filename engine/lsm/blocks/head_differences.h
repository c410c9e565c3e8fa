// Replaces the heads of a block's entries by their differences from the previous entry. A head consists of an
// entry's lengths, its key bytes and the first bytes of its value (split_block.h).
//
// A number that counts up, such as a row number in a key or an id, has a few bytes that change in every row.
// Compressed, these bytes cost 2 to 3 bytes a row. Their differences from row to row are always the same and
// cost nearly nothing. The code here only rewrites bytes: it calls no RocksDB and does not compress. See
// table FMT-S1 of docs/internals/formats-rows.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/namespace.h"

namespace atoll::lsm {

// Copies `heads` to *differing and replaces each byte of the keys and values there by its difference, modulo
// 256, from the byte at the same position of the previous entry's key or value. The lengths stay as they are.
// `heads` and `head_bytes` are those of split_block(); the first `entries_bytes` bytes of `heads` are the
// heads of entries. Returns false if an entry shares more key bytes than the previous key has: `heads` was
// not made from a block then.
bool subtract_heads(const std::string &heads, size_t entries_bytes, uint32_t head_bytes,
                    std::string *differing);

// The reverse of subtract_heads(), in place. Returns false if the lengths of the entries contradict each
// other, because the block is damaged.
bool add_heads(char *heads, size_t entries_bytes, uint32_t head_bytes);

}  // namespace atoll::lsm
