// Goal:   a KeyRanges contains the added keys. Beyond its limit of ranges, it is allowed to contain more keys
//         than were added, but no fewer.
// Method: a few fixed ranges, and random ranges over few keys, compared with a set of booleans. The seed is
//         printed.

#include "txn/locks/key_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

namespace atoll::txn {
namespace {

TEST(KeyRangesTest, TouchingRangesBecomeOne) {
  KeyRanges ranges;
  ranges.add("b", "d");
  ranges.add("d", "f");
  ranges.add("a", "b");
  EXPECT_EQ(ranges.size(), 1u);
  ranges.add("x", "y");
  EXPECT_EQ(ranges.size(), 2u);
  ranges.add("c", "xx");
  EXPECT_EQ(ranges.size(), 1u);
  EXPECT_TRUE(ranges.contains("a"));
  EXPECT_TRUE(ranges.contains("xzz"));
  EXPECT_FALSE(ranges.contains("y"));
  EXPECT_FALSE(ranges.contains("Z"));
}

TEST(KeyRangesTest, AnEmptyRangeAddsNothing) {
  KeyRanges ranges;
  ranges.add("k", "k");
  ranges.add("l", "k");
  EXPECT_EQ(ranges.size(), 0u);
}

TEST(KeyRangesTest, RandomRangesMatchTheModel) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  constexpr size_t kKeys = 60;
  const auto name = [](size_t key) { return std::string(1, static_cast<char>('0' + key)); };
  for (int round = 0; round < 300; ++round) {
    KeyRanges ranges;
    std::vector<bool> model(kKeys, false);
    for (int i = 0; i < 12; ++i) {
      const size_t lower = random() % kKeys;
      const size_t upper = lower + random() % std::min<size_t>(9, kKeys - lower);
      ranges.add(name(lower), name(upper));
      std::fill(model.begin() + static_cast<long>(lower), model.begin() + static_cast<long>(upper), true);
      size_t runs = 0;
      for (size_t key = 0; key < kKeys; ++key) {
        ASSERT_EQ(ranges.contains(name(key)), model[key]) << "key " << key;
        runs += model[key] && (key == 0 || !model[key - 1]);
      }
      ASSERT_EQ(ranges.size(), runs);
      const size_t from = random() % kKeys, to = from + 1 + random() % (kKeys - from);
      const bool has_any =
          std::find(model.begin() + static_cast<long>(from), model.begin() + static_cast<long>(to), true) !=
          model.begin() + static_cast<long>(to);
      ASSERT_EQ(ranges.overlaps(name(from), name(to)), has_any) << from << " to " << to;
    }
  }
}

TEST(KeyRangesTest, TooManyRangesAreJoinedAndStillHoldEverything) {
  KeyRanges ranges;
  const auto name = [](size_t key) {
    char text[16];
    std::snprintf(text, sizeof text, "%08zu", key);
    return std::string(text);
  };
  constexpr size_t kAdded = 3 * KeyRanges::kRangesMax;
  for (size_t i = 0; i < kAdded; ++i) {
    ranges.add(name(10 * i), name(10 * i + 1));
    ASSERT_LE(ranges.size(), KeyRanges::kRangesMax);
  }
  for (size_t i = 0; i < kAdded; ++i) ASSERT_TRUE(ranges.contains(name(10 * i))) << i;
  EXPECT_FALSE(ranges.contains(name(10 * kAdded)));
}

}  // namespace
}  // namespace atoll::txn
