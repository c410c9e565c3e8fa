// Goal:   the head of a queue is found without passing what was deleted before it, and no search ever misses
//         an entry because of a remembered head.
// Method: short sequences of steps, in which a cursor may pass only few deleted entries. Then threads that
//         insert and delete at random while others search; each result is compared with that of a plain
//         iterator of the same snapshot.

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "txn/test_database.h"
#include "txn/transaction.h"

namespace atoll::txn {
namespace {

const std::string kIndex = "index-";
const std::string kEnd = "index.";

std::string entry(int number) { return kIndex + std::to_string(10000 + number); }

class QueueHeadsTest : public ::testing::Test {
 protected:
  QueueHeadsTest() { EXPECT_TRUE(Manager::open(&database, &database, &manager).ok()); }

  std::unique_ptr<Transaction> begin() { return manager->begin(nullptr); }
  void put(Transaction *transaction, int number) {
    ASSERT_TRUE(transaction->insert(family, entry(number), "v", LockWait{0}).ok());
  }
  void commit_put(int number) {
    auto transaction = begin();
    put(transaction.get(), number);
    ASSERT_TRUE(transaction->commit(false).ok());
  }
  void commit_remove(const std::string &key) {
    auto transaction = begin();
    ASSERT_TRUE(transaction->remove(family, key).ok());
    ASSERT_TRUE(transaction->commit(false).ok());
  }
  // Returns the first entry; "none" if there is none; "hidden" if the search passes more than `hidden_max`
  // deleted entries and old versions.
  std::string first(Transaction *transaction, ReadAt at = ReadAt::kLatest, uint64_t hidden_max = 0) {
    ScanOptions options;
    options.lower = kIndex;
    options.upper = kEnd;
    options.hidden_max = hidden_max;
    const auto cursor = transaction->scan(family, at, options);
    cursor->Seek(kIndex);
    if (cursor->Valid()) return cursor->key().ToString();
    return cursor->status().ok() ? "none" : "hidden";
  }
  std::string first(uint64_t hidden_max = 0) { return first(begin().get(), ReadAt::kLatest, hidden_max); }
  // Works as a queue with `length` waiting entries, so that a head is known afterwards. Returns the number of
  // the first entry.
  int work(int steps, int length) {
    for (int i = 0; i < length; ++i) commit_put(i);
    for (int i = 0; i < steps; ++i) {
      commit_put(length + i);
      EXPECT_EQ(first(i < 3 ? 0 : 4), entry(i)) << i;
      commit_remove(entry(i));
    }
    return steps;
  }

  TestDirectory directory;
  TestDatabase database{directory.path()};
  std::unique_ptr<Manager> manager;
  lsm::Family *family = database.shared_family();
};

TEST_F(QueueHeadsTest, AStepPassesWhatWasDeletedSinceTheStepBefore) {
  const int head = work(300, 10);
  EXPECT_EQ(first(4), entry(head));
  auto consumer = begin();
  for (int i = head; i < head + 5; ++i) {
    EXPECT_EQ(first(consumer.get(), ReadAt::kLatest, 4), entry(i)) << "own deletions do not hide the head";
    ASSERT_TRUE(consumer->remove(family, entry(i)).ok());
  }
  consumer->rollback();
  EXPECT_EQ(first(4), entry(head));
}

TEST_F(QueueHeadsTest, AQueueThatRunsEmpty) {
  work(50, 1);
  commit_remove(entry(50));
  EXPECT_EQ(first(), "none");
  EXPECT_EQ(first(4), "none");
  commit_put(7);
  EXPECT_EQ(first(), entry(7));
}

TEST_F(QueueHeadsTest, AnInsertBeforeTheHeadIsFound) {
  const int head = work(20, 5);
  auto open = begin(), prepared = begin();
  put(open.get(), 3);
  put(prepared.get(), 4);
  ASSERT_TRUE(prepared->prepare("x", true).ok());
  EXPECT_EQ(first(), entry(head));
  EXPECT_EQ(first(open.get()), entry(3)) << "its own write";
  ASSERT_TRUE(prepared->commit_prepared(true).ok());
  EXPECT_EQ(first(), entry(4));
  commit_remove(entry(4));
  EXPECT_EQ(first(), entry(head));
  EXPECT_EQ(first(), entry(head));
  ASSERT_TRUE(open->commit(true).ok());
  EXPECT_EQ(first(), entry(3));
}

TEST_F(QueueHeadsTest, AnOlderSnapshotSeesWhatWasDeletedSince) {
  auto old = begin();
  for (int i = 0; i < 40; ++i) commit_put(i);
  old->make_snapshot();
  for (int i = 0; i < 20; ++i) {
    commit_remove(entry(i));
    EXPECT_EQ(first(), entry(i + 1));
    EXPECT_EQ(first(old.get(), ReadAt::kSnapshot), entry(0));
  }
}

TEST_F(QueueHeadsTest, OnlyTheRangeThatWasSearchedIsKnown) {
  const int head = work(20, 5);
  auto transaction = begin();
  ScanOptions options;
  options.lower = kIndex;
  options.upper = kEnd;
  const auto cursor = transaction->scan(family, ReadAt::kLatest, options);
  for (int from = 0; from < head + 5; ++from) {
    cursor->Seek(entry(from));
    ASSERT_TRUE(cursor->Valid());
    EXPECT_EQ(cursor->key().ToString(), entry(std::max(from, head)));
  }
}

TEST_F(QueueHeadsTest, AHeadThatNoSearchUsesIsForgotten) {
  const int head = work(300, 10);
  const auto commit_elsewhere = [&](int commits) {
    for (int i = 0; i < commits; ++i) {
      auto transaction = begin();
      ASSERT_TRUE(transaction->insert(family, "other-" + std::to_string(i), "v", LockWait{0}).ok());
      ASSERT_TRUE(transaction->remove(family, "other-" + std::to_string(i)).ok());
      ASSERT_TRUE(transaction->commit(false).ok());
    }
  };
  for (int i = 0; i < 3; ++i) {
    commit_elsewhere(9'000);
    EXPECT_EQ(first(4), entry(head)) << "a search keeps the head for further commits";
  }
  commit_elsewhere(11'000);
  EXPECT_EQ(first(4), "hidden");
  EXPECT_EQ(first(), entry(head));
}

// Threads insert and delete near the head. Each searches at a snapshot, by a cursor and without one.
TEST_F(QueueHeadsTest, RandomCommitsNeverHideAnEntry) {
  std::atomic<bool> stop{false};
  std::atomic<int> searches{0}, wrong{0};
  const auto change = [&](unsigned seed) {
    std::mt19937 dice(seed);
    while (!stop) {
      auto transaction = begin();
      for (unsigned i = dice() % 3; i < 3; ++i) {
        const std::string key = entry(static_cast<int>(dice() % 12));
        const bool is_removal = dice() % 3 != 0;
        ASSERT_TRUE((is_removal ? transaction->remove(family, key)
                                : transaction->insert(family, key, "v", LockWait{0}))
                        .ok());
      }
      const std::string xid = std::to_string(transaction->id());
      if (dice() % 4 == 0) {
        ASSERT_TRUE(transaction->prepare(xid, false).ok());
      }
      ASSERT_TRUE(transaction->commit(false).ok());
    }
  };
  const auto search = [&] {
    while (!stop) {
      auto transaction = begin();
      transaction->make_snapshot();
      rocksdb::ReadOptions options;
      options.total_order_seek = true;
      options.snapshot = transaction->snapshot(lsm::Side::kMain);
      for (int i = 0; i < 3; ++i) {
        const std::string found = first(transaction.get(), ReadAt::kSnapshot);
        const auto plain = family->iterator(options);
        plain->Seek(kIndex);
        const bool is_there = plain->Valid() && plain->key().ToStringView() < kEnd;
        if (found != (is_there ? plain->key().ToString() : "none")) ++wrong;
        (void)first(transaction.get());
        ++searches;
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 2; ++seed) threads.emplace_back(change, seed);
  for (int i = 0; i < 2; ++i) threads.emplace_back(search);
  while (searches < 60000) std::this_thread::yield();
  stop = true;
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace atoll::txn
