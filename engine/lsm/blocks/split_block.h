// Splits a data block of RocksDB into two streams that compress better apart. The code here only moves bytes:
// it calls no RocksDB and does not compress.
//
// In each row of a block, bytes that hardly change (lengths, key bytes, a row's fixed columns) stand beside
// text. Because of these few bytes, an entropy coder gives each byte of the text a longer code: 3 such bytes
// make a row of 33 random letters and digits 3 bytes longer. So each entry is cut in two. The heads (lengths,
// key bytes and the first `head_bytes` bytes of the value) make one stream. The tails (the remaining bytes of
// each value) make the other stream. See table FMT-S1 of docs/internals/formats-rows.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/namespace.h"

namespace atoll::lsm {

struct BlockStreams {
  std::string heads;  // the heads of entries, then the restart array if it is stored, then the restart count
  std::string tails;
  size_t entries_bytes = 0;  // how many bytes of `heads` are heads of entries
  // How many entries there are from one restart point to the next. 0: the restart points follow no pattern,
  // so the restart array is stored.
  uint32_t restart_interval = 0;
};

// Returns how many bytes at the start of the block's values are alike from row to row; they become parts of
// the heads. The last of these bytes is the last position, among the first 256, at which more than half of
// the values have the same byte as the previous value. Returns 0 if there is no such position, or if
// split_block() does not take blocks of this form.
uint32_t common_head_bytes(std::string_view block);

// Splits `block` into *streams. Returns false if the block is not of RocksDB's plain form (entries with
// shared key prefixes, restart array, count). The caller then compresses the block whole.
bool split_block(std::string_view block, uint32_t head_bytes, BlockStreams *streams);

// Sets *position to the offset in the block at which join_block() expects the tails. It is so far from the
// start that join_block() overwrites no tail before it has moved it. Returns false if the sizes do not add up
// to one block.
bool tails_position(std::string_view heads, uint32_t restart_interval, size_t tails_bytes, size_t block_bytes,
                    size_t *position);

// The reverse of split_block(), in place: `block` has room for `block_bytes` bytes, and the tails are there
// already, from tails_position() on. Returns false if the streams do not make a block of exactly that size.
// They are damaged then; the caller reports that and does not retry.
bool join_block(std::string_view heads, uint32_t head_bytes, uint32_t restart_interval, size_t tails_bytes,
                char *block, size_t block_bytes);

}  // namespace atoll::lsm
