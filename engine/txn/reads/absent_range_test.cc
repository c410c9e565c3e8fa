// Goal:   find_locked() finds the same as get() for each key, whatever other transactions commit meanwhile
//         (this depends on TXN-1 and TXN-3: a transaction that commits a key is counted before it releases
//         its locks). When many new keys follow each other, find_locked() looks up only a few.
// Method: counts of lookups and searches; steps of a second transaction in between. Then threads insert at
//         random under locks, and a key that two of them have inserted is an error. The seed is printed.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "base/work.h"
#include "txn/test_database.h"
#include "txn/transaction.h"

namespace atoll::txn {
namespace {

const std::string kIndex(kIndexStartBytes, 'i');
const std::string kEnd(kIndexStartBytes, 'j');
constexpr LockWait kLong{60000};

std::string key_of(uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof(text), "%08u", number);
  return kIndex + text;
}

class AbsentRangeTest : public ::testing::Test {
 protected:
  AbsentRangeTest() : database(directory.path()), family(database.shared_family()) {
    EXPECT_TRUE(Manager::open(&database, &database, &manager).ok());
  }

  Status lock_and_find(Transaction *transaction, const std::string &key, AbsentRange *range) {
    const Status locked = manager->locks()->lock(transaction->lock_owner(), {family->id(), key},
                                                 LockMode::kExclusive, kLong, nullptr);
    return locked.ok() ? transaction->find_locked(family, key, kEnd, range) : locked;
  }
  // Inserts a key if no row has it. Returns true if it has inserted the key.
  bool insert(Transaction *transaction, uint32_t number, AbsentRange *range) {
    const std::string key = key_of(number);
    const Status found = lock_and_find(transaction, key, range);
    if (found.code() != Code::kNotFound) return false;
    return transaction->insert(family, key, "v", kLong).ok();
  }
  void commit_key(uint32_t number) {
    AbsentRange range;
    const auto transaction = manager->begin(nullptr);
    EXPECT_TRUE(insert(transaction.get(), number, &range));
    EXPECT_TRUE(transaction->commit(false).ok());
  }

  TestDirectory directory;
  TestDatabase database;
  lsm::Family *const family;
  std::unique_ptr<Manager> manager;
};

TEST_F(AbsentRangeTest, ManyNewKeysInARowCostAFewLookups) {
  commit_key(10);
  commit_key(5000);
  const auto writer = manager->begin(nullptr);
  AbsentRange range;
  const OwnWork work;
  const WorkScope scope(work.get());
  for (uint32_t number = 1000; number < 4000; number++)
    EXPECT_TRUE(insert(writer.get(), number, &range)) << number;
  EXPECT_LE(work.get()->count(WorkKind::kPointGets), 8u);
  EXPECT_EQ(work.get()->count(WorkKind::kCursorSeeks), 1u);
}

TEST_F(AbsentRangeTest, SearchesThatDoNotPayBecomeRare) {
  for (uint32_t number = 0; number < 3000; number += 2) commit_key(number);
  const auto writer = manager->begin(nullptr);
  AbsentRange range;
  const OwnWork work;
  const WorkScope scope(work.get());
  for (uint32_t number = 1; number < 3000; number += 2)
    EXPECT_TRUE(insert(writer.get(), number, &range)) << number;
  EXPECT_LE(work.get()->count(WorkKind::kCursorSeeks), 10u);
}

TEST_F(AbsentRangeTest, OwnAndCommittedKeysInTheRangeAreFound) {
  commit_key(100);
  const auto writer = manager->begin(nullptr);
  AbsentRange range;
  for (uint32_t number = 20; number < 50; number++) EXPECT_TRUE(insert(writer.get(), number, &range));
  EXPECT_FALSE(insert(writer.get(), 30, &range)) << "written by itself";
  EXPECT_FALSE(insert(writer.get(), 100, &range)) << "the end of the range";
  EXPECT_TRUE(writer->remove(family, key_of(31)).ok());
  EXPECT_TRUE(insert(writer.get(), 31, &range)) << "removed by itself";
}

TEST_F(AbsentRangeTest, WhatAnotherCommitsIntoTheRangeIsFound) {
  const auto writer = manager->begin(nullptr), other = manager->begin(nullptr);
  AbsentRange range, others;
  EXPECT_TRUE(insert(other.get(), 40, &others));
  for (uint32_t number = 1; number < 30; number++) EXPECT_TRUE(insert(writer.get(), number, &range));
  EXPECT_TRUE(range.contains(key_of(40), writer->commits_seen(family))) << "the test tests nothing";
  EXPECT_TRUE(other->commit(false).ok());
  EXPECT_FALSE(insert(writer.get(), 40, &range));
}

TEST_F(AbsentRangeTest, NoKeyIsInsertedTwice) {
  constexpr uint32_t kKeys = 2000, kThreads = 4, kRounds = 100, kRun = 40;
  const auto seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::array<std::atomic<uint32_t>, kKeys> inserted{};
  const auto insert_runs = [&](uint32_t thread) {
    std::mt19937 random(seed + thread);
    AbsentRange range;
    for (uint32_t round = 0; round < kRounds; round++) {
      const auto transaction = manager->begin(nullptr);
      const uint32_t first = random() % kKeys;
      std::vector<uint32_t> mine;
      for (uint32_t number = first; number < std::min(first + kRun, kKeys); number++)
        if (insert(transaction.get(), number, &range)) mine.push_back(number);
      ASSERT_TRUE(transaction->commit(false).ok());
      for (const uint32_t number : mine) inserted[number].fetch_add(1);
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; thread++) threads.emplace_back(insert_runs, thread);
  for (std::thread &thread : threads) thread.join();
  for (uint32_t number = 0; number < kKeys; number++) EXPECT_LE(inserted[number].load(), 1u) << number;
}

}  // namespace
}  // namespace atoll::txn
