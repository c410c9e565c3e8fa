// Goal:   a block that is split and joined again is the same block, whatever its entries are; a damaged
//         stream causes no read or write outside of a buffer.
// Method: blocks written by hand in RocksDB's form, and random ones from a printed seed. The streams are cut
//         at every length, and thousands of bytes are changed; AddressSanitizer reports bad accesses.
#include "lsm/blocks/split_block.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/bytes.h"
#include "lsm/blocks/head_differences.h"

namespace atoll::lsm {
namespace {

struct BlockShape {
  uint32_t restart_interval = 16;   // entries from one restart point to the next
  bool irregular_restarts = false;  // true: entry 3 is a restart point, too, which breaks the pattern
};

void append_u32(std::string *to, uint32_t value) { to->append(reinterpret_cast<const char *>(&value), 4); }

// Makes a block of entries with these values and ascending keys of 8 bytes.
std::string make_block(const std::vector<std::string> &values, BlockShape shape = {}) {
  std::string block;
  std::vector<uint32_t> restarts{0};
  for (size_t i = 0; i < values.size(); ++i) {
    const bool restart = i % shape.restart_interval == 0 || (shape.irregular_restarts && i == 3);
    if (restart && i > 0) restarts.push_back(static_cast<uint32_t>(block.size()));
    uint8_t key[8];
    store_be_bytes(key, i, 8);
    const size_t shared = restart ? 0 : 6;
    append_varint(&block, shared);
    append_varint(&block, 8 - shared);
    append_varint(&block, values[i].size());
    block.append(reinterpret_cast<char *>(key) + shared, 8 - shared);
    block.append(values[i]);
  }
  for (const uint32_t restart : restarts) append_u32(&block, restart);
  append_u32(&block, static_cast<uint32_t>(restarts.size()));
  return block;
}

// The block that the streams make, or "" if tails_position() or join_block() refuses the streams.
std::string join(const BlockStreams &streams, uint32_t head_bytes, size_t block_bytes) {
  std::string block(block_bytes, '?');
  size_t position;
  if (!tails_position(streams.heads, streams.restart_interval, streams.tails.size(), block_bytes,
                      &position)) {
    return "";
  }
  std::memcpy(block.data() + position, streams.tails.data(), streams.tails.size());
  const bool whole = join_block(streams.heads, head_bytes, streams.restart_interval, streams.tails.size(),
                                block.data(), block_bytes);
  return whole ? block : "";
}

std::vector<std::string> random_values(std::mt19937_64 *random) {
  std::vector<std::string> values((*random)() % 400);
  const size_t length_max = (*random)() % 3 == 0 ? 3000 : 60;
  for (std::string &value : values) {
    value.resize((*random)() % length_max);
    for (char &byte : value) byte = static_cast<char>((*random)());
  }
  return values;
}

// How many bytes the heads of entries take in streams.heads; the restart array and the count follow them.
size_t entries_bytes(const BlockStreams &streams, size_t block_bytes) {
  size_t position = 0;
  EXPECT_TRUE(
      tails_position(streams.heads, streams.restart_interval, streams.tails.size(), block_bytes, &position));
  return position;
}

TEST(SplitBlock, any_block_comes_back) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const BlockShape shape{static_cast<uint32_t>(1 + random() % 40), random() % 4 == 0};
    const std::string block = make_block(random_values(&random), shape);
    const auto head_bytes = static_cast<uint32_t>(random() % 80);
    BlockStreams streams;
    ASSERT_TRUE(split_block(block, head_bytes, &streams));
    ASSERT_EQ(join(streams, head_bytes, block.size()), block);
    const size_t length = entries_bytes(streams, block.size());
    std::string differing;
    ASSERT_TRUE(subtract_heads(streams.heads, length, head_bytes, &differing));
    ASSERT_TRUE(add_heads(differing.data(), length, head_bytes));
    ASSERT_EQ(differing, streams.heads);
  }
}

TEST(SplitBlock, heads_that_count_are_all_the_same_as_differences) {
  std::vector<std::string> values;
  for (uint32_t i = 250; i < 280; ++i) {
    std::string value("\0\1\0", 3);
    append_u32(&value, i * 11);
    values.push_back(value + "text");
  }
  const std::string block = make_block(values, {64});
  BlockStreams streams;
  ASSERT_TRUE(split_block(block, 7, &streams));
  const size_t length = entries_bytes(streams, block.size());
  std::string differing;
  ASSERT_TRUE(subtract_heads(streams.heads, length, 7, &differing));
  // The differences of an entry: three lengths (shared key bytes, own key bytes, value), two key bytes of a
  // number that goes up by 1, and the head of a value with a number that goes up by 11. The first entry takes
  // 18 bytes: it shares no key bytes and is no difference.
  const std::string usual("\6\2\13\0\1\0\0\0\13\0\0\0", 12);
  const std::string carried("\6\2\13\0\1\0\0\0\13\1\0\0", 12);
  size_t unusual = 0;
  for (size_t at = 18; at < length; at += usual.size()) {
    const std::string entry = differing.substr(at, usual.size());
    if (entry != usual) {
      EXPECT_EQ(entry, carried) << at;
      ++unusual;
    }
  }
  EXPECT_EQ(unusual, 1u);  // from 11 * 255 to 11 * 256, a second byte changes
}

TEST(SplitBlock, heads_that_share_more_than_there_is_are_refused) {
  std::string first("\0\2\0ab", 5);
  const std::string second("\3\1\0c", 4);
  std::string differing;
  EXPECT_FALSE(subtract_heads(first + second, 9, 0, &differing));
  std::string damaged = first + second;
  EXPECT_FALSE(add_heads(damaged.data(), damaged.size(), 0));
  EXPECT_TRUE(add_heads(first.data(), first.size(), 0));
  for (size_t length = 1; length < first.size(); ++length)
    EXPECT_FALSE(add_heads(first.data(), length, 0)) << length;
}

TEST(SplitBlock, regular_restart_points_are_not_stored) {
  const std::string block = make_block(std::vector<std::string>(100, "value"));
  BlockStreams streams;
  ASSERT_TRUE(split_block(block, 5, &streams));
  EXPECT_EQ(streams.restart_interval, 16u);
  EXPECT_EQ(streams.heads.size() + streams.tails.size(), block.size() - 7 * 4);
}

TEST(SplitBlock, irregular_restart_points_are_stored) {
  const std::string block = make_block(std::vector<std::string>(100, "value"), {16, true});
  BlockStreams streams;
  ASSERT_TRUE(split_block(block, 5, &streams));
  EXPECT_EQ(streams.restart_interval, 0u);
  EXPECT_EQ(join(streams, 5, block.size()), block);
}

// RocksDB makes no block without restart points, but if split_block() gets one, join_block() restores it.
TEST(SplitBlock, a_block_without_restart_points_comes_back) {
  std::string block = make_block({"a", "b", "c"}, {.restart_interval = 4});
  block.resize(block.size() - 2 * sizeof(uint32_t));  // cuts off the only restart point and the count
  append_u32(&block, 0);
  BlockStreams streams;
  ASSERT_TRUE(split_block(block, 0, &streams));
  EXPECT_EQ(streams.restart_interval, 0u);
  EXPECT_EQ(join(streams, 0, block.size()), block);
}

TEST(SplitBlock, blocks_of_other_forms_are_refused) {
  const std::string plain = make_block(std::vector<std::string>(20, "value"));
  BlockStreams streams;
  ASSERT_TRUE(split_block(plain, 0, &streams));
  std::string hash_index = plain;
  hash_index.back() = static_cast<char>(0x80);
  EXPECT_FALSE(split_block(hash_index, 0, &streams));
  std::string sections = plain;
  sections.back() = 0x10;
  EXPECT_FALSE(split_block(sections, 0, &streams));
  EXPECT_FALSE(split_block("", 0, &streams));
  EXPECT_FALSE(split_block("abc", 0, &streams));
  EXPECT_FALSE(split_block(plain.substr(1), 0, &streams));
}

TEST(SplitBlock, head_ends_where_neighbours_stop_to_agree) {
  std::vector<std::string> values;
  for (int i = 0; i < 100; ++i) {
    std::string value("\0\1\0", 3);
    append_u32(&value, static_cast<uint32_t>(i));  // only the lowest of its 4 bytes changes
    value += std::string(1, static_cast<char>('a' + i % 26)) + static_cast<char>('A' + i % 17);
    values.push_back(value);
  }
  EXPECT_EQ(common_head_bytes(make_block(values)), 7u);
  EXPECT_EQ(common_head_bytes(make_block({"one", "two", "six"})), 0u);
  EXPECT_EQ(common_head_bytes(make_block(std::vector<std::string>(50))), 0u);
}

TEST(SplitBlock, damaged_streams_are_refused) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string block = make_block(std::vector<std::string>(60, "a value of some bytes"));
  BlockStreams whole;
  ASSERT_TRUE(split_block(block, 4, &whole));
  for (size_t length = 0; length < whole.heads.size(); ++length) {
    BlockStreams cut = whole;
    cut.heads.resize(length);
    EXPECT_EQ(join(cut, 4, block.size()), "") << length;
  }
  EXPECT_EQ(join(whole, 4, block.size() - 1), "");
  EXPECT_EQ(join(whole, 5, block.size()), "");
  for (int round = 0; round < 5000; ++round) {
    BlockStreams changed = whole;
    changed.heads[random() % changed.heads.size()] = static_cast<char>(random());
    changed.restart_interval = round % 7 == 0 ? static_cast<uint32_t>(random() % 70) : 16;
    // Neither call may read or write outside of its buffers. A wrong block is allowed here: damage that gives
    // one is found by RocksDB's checksum.
    add_heads(changed.heads.data(), random() % changed.heads.size(), 4);
    const std::string joined = join(changed, 4, block.size());
    EXPECT_TRUE(joined.empty() || joined.size() == block.size());
  }
}

}  // namespace
}  // namespace atoll::lsm
