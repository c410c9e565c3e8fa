// Goal:   the index returns its keys in order, after any insertions and erasures.
// Method: random insertions and erasures, compared with a std::map, with keys that share their first bytes.
//         The seed is printed.
#include "txn/writes/key_index.h"

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>

namespace atoll::txn {
namespace {

class KeyIndexTest : public testing::Test {
 protected:
  KeyIndexTest() : seed_(std::random_device{}()), random_(seed_) { std::cout << "seed " << seed_ << "\n"; }

  void insert(const std::string &key) {
    const auto [place, added] = model_.try_emplace(key);
    if (!added) return;
    place->second = std::make_unique<OwnKey>(OwnKey{place->first});
    const KeyIndex::Iterator before = index_.lower_bound(key);
    ASSERT_TRUE(before == index_.end() || before->key != key);
    index_.insert(before, place->second.get());
  }
  void erase(const std::string &key) {
    if (model_.contains(key)) index_.erase(key);
    model_.erase(key);
  }

  void expect_all() const {
    auto expected = model_.begin();
    for (OwnKey &entry : index_) {
      ASSERT_TRUE(expected != model_.end());
      ASSERT_EQ(&entry, expected->second.get());
      ++expected;
    }
    ASSERT_TRUE(expected == model_.end());
    KeyIndex::Iterator back = index_.end();
    for (auto each = model_.rbegin(); each != model_.rend(); ++each) ASSERT_EQ((--back)->key, each->first);
    ASSERT_TRUE(back == index_.begin());
    ASSERT_EQ(index_.empty(), model_.empty());
  }

  void expect_bounds(const std::string &key) const {
    const auto expect = [&](KeyIndex::Iterator place, auto expected) {
      ASSERT_EQ(place == index_.end(), expected == model_.end());
      if (expected != model_.end()) {
        ASSERT_EQ(place->key, expected->first);
      }
    };
    expect(index_.lower_bound(key), model_.lower_bound(key));
    expect(index_.upper_bound(key), model_.upper_bound(key));
    ASSERT_EQ(index_.find(key) != nullptr, model_.contains(key));
  }

  // Keys have 4 to 23 bytes, often with zeros at the end. Many have the same first 16 bytes.
  std::string random_key() {
    std::string key("\0\0\0\1", 4);
    if (random_() % 4 == 0) key += "twelve bytes";
    key.resize(key.size() + random_() % 8);
    for (size_t i = 4; i < key.size(); ++i) {
      if (random_() % 3 == 0) key[i] = static_cast<char>(random_() % 256);
    }
    return key;
  }

  const unsigned int seed_;
  std::mt19937 random_;
  std::map<std::string, std::unique_ptr<OwnKey>> model_;
  KeyIndex index_;
};

TEST_F(KeyIndexTest, RandomKeysMatchTheModel) {
  for (int round = 0; round < 40; ++round) {
    const unsigned int erased = random_() % 10;  // of 10 steps
    for (int step = 0; step < 3000; ++step) {
      if (random_() % 10 >= erased)
        insert(random_key());
      else if (auto place = model_.lower_bound(random_key()); place != model_.end())
        erase(std::string(place->first));
      if (step % 10 == 0) expect_bounds(random_key());
    }
    expect_all();
    if (HasFatalFailure()) return;
  }
  while (!model_.empty()) erase(std::string(model_.begin()->first));
  expect_all();
  EXPECT_EQ(index_.begin(), index_.end());
}

TEST_F(KeyIndexTest, KeysInOrderFillTheirLeaves) {
  constexpr int kKeys = 100000;
  constexpr size_t kSlotBytes = 24;          // 16 bytes of the key and a pointer
  for (int index = 0; index < 2; ++index) {  // the second time, all keys lie before those of the first time
    for (int i = 0; i < kKeys; ++i) {
      char key[16];
      std::snprintf(key, sizeof key, "%d%08d", 1 - index, i);
      insert(key);
    }
  }
  expect_all();
  // At most a tenth more than full leaves take. Leaves that are half full would take twice as much.
  EXPECT_LT(index_.memory_bytes(), 2 * kKeys * kSlotBytes * 11 / 10);
}

TEST_F(KeyIndexTest, AnEmptyIndexTakesAFewBytesForAKey) {
  insert("key");
  EXPECT_LE(index_.memory_bytes(), 128u);
  erase("key");
  expect_all();
}

}  // namespace
}  // namespace atoll::txn
