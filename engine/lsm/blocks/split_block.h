// Splits a data block of RocksDB into two streams that compress better apart. Pure: no RocksDB, no
// compression.
//
// In each row of a block, bytes that hardly change (lengths, key bytes, a row's fixed columns) stand beside
// text. Because of these few bytes, an entropy coder gives each byte of the text a longer code: 3 such bytes
// make a row of 33 random letters and digits 3 bytes longer. So each entry is cut in two: the heads (lengths,
// key bytes and the first `head_bytes` bytes of the value) make one stream, and the tails (the rest of each
// value) make the other. See table FMT-S1 of docs/internals/formats-rows.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/namespace.h"

namespace atoll::lsm {

struct BlockStreams {
  std::string heads;
  std::string tails;
  size_t entries_bytes = 0;       // of `heads`, those of entries
  uint32_t restart_interval = 0;  // entries between restart points; 0: the restart array ends `heads`
};

// Returns how many bytes at the start of the block's values are alike from row to row: up to and including
// the last byte in which more than half of neighbouring values agree. 0 if there is no such byte, or if the
// block is not of the form that split_block() takes.
uint32_t common_head_bytes(std::string_view block);

// False if `block` is not of RocksDB's plain form (entries with shared key prefixes, restart array,
// count); such a block is compressed whole.
bool split_block(std::string_view block, uint32_t head_bytes, BlockStreams *streams);

// Sets *position to where join_block() expects the tails, in bytes from the start of the block. From there
// join_block() moves tails only towards the start. Returns false if the numbers cannot be those of one block.
bool tails_position(std::string_view heads, uint32_t restart_interval, size_t tails_bytes, size_t block_bytes,
                    size_t *position);

// The reverse of split_block(), in place: `block` holds `block_bytes` bytes, the tails from tails_position()
// on. False if the streams do not make a block of exactly that size: damage, which the caller reports and
// does not retry.
bool join_block(std::string_view heads, uint32_t head_bytes, uint32_t restart_interval, size_t tails_bytes,
                char *block, size_t block_bytes);

}  // namespace atoll::lsm
