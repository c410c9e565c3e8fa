// A data block of RocksDB as two streams that compress better apart. Pure: no RocksDB, no compression.
//
// A block is a row after row mixture of what hardly changes (lengths, key bytes, a row's fixed columns) and
// of text. An entropy coder gives each byte of the text a longer code because of the few other bytes among
// it: 3 of them cost a row of 33 random letters and digits 3 bytes. So entries are cut in two: the heads
// (lengths, key bytes and the first `head_bytes` bytes of the value) make one stream and the tails (the rest
// of each value) the other. See table FMT-S1 of docs/internals/formats-rows.md.
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

// The number of bytes at the start of its values that are alike from row to row: where more than half of
// neighbours agree in a byte, all before it counts as head. 0 if there is no such byte, or the block is not
// of the form that split_block() takes.
uint32_t common_head_bytes(std::string_view block);

// False if `block` is not of RocksDB's plain form (entries with shared key prefixes, restart array,
// count); such a block is compressed whole.
bool split_block(std::string_view block, uint32_t head_bytes, BlockStreams *streams);

// Where join_block() expects the tails before it starts, in bytes from the start of the block: behind all
// they will move through. Returns false if the numbers cannot be those of one block.
bool tails_position(std::string_view heads, uint32_t restart_interval, size_t tails_bytes, size_t block_bytes,
                    size_t *position);

// The reverse, in place: `block` holds `block_bytes` bytes, the tails from tails_position() on. False if the
// streams do not make a block of exactly that size: damage, which the caller reports and does not retry.
bool join_block(std::string_view heads, uint32_t head_bytes, uint32_t restart_interval, size_t tails_bytes,
                char *block, size_t block_bytes);

}  // namespace atoll::lsm
