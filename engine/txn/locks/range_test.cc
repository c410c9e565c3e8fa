// Goal:   no other transaction commits an entry into a locked range (LOCK-4, TXN-3), in whatever state the
//         writer was when the range was locked: open, rolled back to a savepoint, committing, prepared, or
//         found prepared at start.
// Method: short sequences of steps of two transactions. Then threads insert at random, and threads read
//         ranges twice with locks: an entry that only the second read finds is a phantom. The seed is
//         printed.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include "txn/test_database.h"
#include "txn/transaction.h"

namespace atoll::txn {
namespace {

const std::string kIndex(kIndexStartBytes, 'i');
constexpr LockWait kNoWait{0};
constexpr LockWait kLong{60000};

class RangeTest : public ::testing::Test {
 protected:
  RangeTest() { open(); }
  ~RangeTest() override { close(); }
  void open() {
    database = std::make_unique<TestDatabase>(directory.path());
    family = database->shared_family();
    ASSERT_TRUE(Manager::open(database.get(), database.get(), &manager).ok());
  }
  void close() {
    manager.reset();
    database.reset();
  }

  Status insert(Transaction *transaction, const std::string &key, LockWait wait = kNoWait,
                const std::string &value = "v") {
    return transaction->insert(family, kIndex + key, value, wait);
  }
  Transaction::Obstacle lock(Transaction *transaction, const std::string &from, const std::string &to,
                             bool forward = true) {
    return transaction->lock_range(family, kIndex + from, kIndex + to, forward);
  }
  std::unique_ptr<Transaction> begin() { return manager->begin(nullptr); }

  TestDirectory directory;
  std::unique_ptr<TestDatabase> database;
  std::unique_ptr<Manager> manager;
  lsm::Family *family = nullptr;
};

TEST_F(RangeTest, ARangeStopsAtWhatOthersHaveNotCommitted) {
  auto writer = begin(), reader = begin();
  ASSERT_TRUE(insert(writer.get(), "d").ok());
  ASSERT_TRUE(insert(writer.get(), "f").ok());
  Transaction::Obstacle found = lock(reader.get(), "a", "z");
  EXPECT_EQ(found.entry, kIndex + "d");
  EXPECT_EQ(found.reached, kIndex + "d");
  EXPECT_EQ(insert(writer.get(), "c").code(), Code::kLockTimeout) << "before the obstacle it is locked";
  EXPECT_TRUE(insert(writer.get(), "e").ok()) << "behind the obstacle it is not";
  found = lock(reader.get(), "a", "z", false);
  EXPECT_EQ(found.entry, kIndex + "f");
  EXPECT_EQ(found.reached, kIndex + "f" + std::string(1, '\0'));
  EXPECT_EQ(insert(writer.get(), "g").code(), Code::kLockTimeout);
}

TEST_F(RangeTest, OwnWritesAreNoObstacle) {
  auto reader = begin();
  ASSERT_TRUE(insert(reader.get(), "d").ok());
  EXPECT_TRUE(lock(reader.get(), "a", "z").entry.empty());
  EXPECT_TRUE(insert(reader.get(), "e").ok());
}

TEST_F(RangeTest, AnEndedWriterIsNoObstacleButIsNoticed) {
  auto writer = begin(), reader = begin();
  ASSERT_TRUE(insert(writer.get(), "d").ok());
  const uint64_t before = reader->commits_seen(family);
  ASSERT_TRUE(writer->commit(false).ok());
  EXPECT_TRUE(lock(reader.get(), "a", "z").entry.empty());
  EXPECT_NE(reader->commits_seen(family), before) << "a cursor opened before has not seen d";
}

TEST_F(RangeTest, SavepointRollbackTakesTheObstacleAwayAndMayBringItBack) {
  auto writer = begin(), reader = begin();
  const size_t outer = writer->set_savepoint();
  ASSERT_TRUE(insert(writer.get(), "d").ok());
  const size_t inner = writer->set_savepoint();
  ASSERT_TRUE(writer->remove(family, kIndex + "d").ok());
  EXPECT_EQ(lock(reader.get(), "a", "z").entry, kIndex + "d") << "the rollback below would bring it back";
  ASSERT_TRUE(writer->rollback_to_savepoint(inner).ok());
  EXPECT_EQ(lock(reader.get(), "a", "z").entry, kIndex + "d");
  ASSERT_TRUE(writer->rollback_to_savepoint(outer).ok());
  EXPECT_TRUE(lock(reader.get(), "a", "z").entry.empty());
}

TEST_F(RangeTest, APreparedWriterStaysAnObstacle) {
  auto writer = begin(), reader = begin();
  ASSERT_TRUE(insert(writer.get(), "d").ok());
  ASSERT_TRUE(writer->prepare("x", false).ok());
  EXPECT_EQ(lock(reader.get(), "a", "z").entry, kIndex + "d");
  manager->detach_prepared(std::move(writer));
  EXPECT_EQ(lock(reader.get(), "a", "z").entry, kIndex + "d") << "its client is gone";
  writer = manager->take_prepared("x");
  ASSERT_TRUE(writer->commit_prepared(false).ok());
  EXPECT_TRUE(lock(reader.get(), "a", "z").entry.empty());
}

TEST_F(RangeTest, ABigPreparedWriterIsKnownByItsBounds) {
  auto writer = begin(), reader = begin();
  const std::string big(700 << 10, 'x');
  ASSERT_TRUE(insert(writer.get(), "d", kNoWait, big).ok());
  ASSERT_TRUE(insert(writer.get(), "k", kNoWait, big).ok());
  ASSERT_TRUE(writer->prepare("x", false).ok());
  EXPECT_TRUE(lock(reader.get(), "a", "d").entry.empty());
  EXPECT_TRUE(lock(reader.get(), "l", "z").entry.empty());
  Transaction::Obstacle found = lock(reader.get(), "f", "h");
  EXPECT_EQ(found.entry, kIndex + "d") << "a row that the writer has locked";
  EXPECT_EQ(found.reached, kIndex + "f") << "nothing is locked";
  found = lock(reader.get(), "f", "z", false);
  EXPECT_EQ(found.reached, kIndex + "k" + std::string(1, '\0'));
  ASSERT_TRUE(writer->rollback_prepared().ok());
  EXPECT_TRUE(lock(reader.get(), "f", "h").entry.empty());
}

TEST_F(RangeTest, AWriterFoundPreparedAtStartIsAnObstacle) {
  auto writer = begin();
  ASSERT_TRUE(insert(writer.get(), "d").ok());
  ASSERT_TRUE(writer->prepare("x", true).ok());
  manager->detach_prepared(std::move(writer));
  close();
  open();
  auto reader = begin();
  EXPECT_EQ(lock(reader.get(), "a", "z").entry, kIndex + "d");
  ASSERT_TRUE(manager->take_prepared("x")->rollback_prepared().ok());
  EXPECT_TRUE(lock(reader.get(), "a", "z").entry.empty());
}

// Reads [from, to) with locks in the steps of the handler: locks the range, waits for the uncommitted writes
// of others in it, then scans it.
class LockingReader {
 public:
  LockingReader(Manager *manager, lsm::Family *family) : manager_(manager), family_(family) {}

  Status read(Transaction *transaction, const std::string &from, const std::string &to,
              std::vector<std::string> *keys) {
    for (std::string at = from; at < to;) {
      const Transaction::Obstacle found = transaction->lock_range(family_, at, to, true);
      at = found.reached;
      if (found.entry.empty()) break;
      ATOLL_RETURN_IF_ERROR(manager_->locks()->lock(transaction->lock_owner(), {family_->id(), found.entry},
                                                    LockMode::kShared, kLong, nullptr));
    }
    keys->clear();
    ScanOptions options;
    options.lower = from;
    options.upper = to;
    auto cursor = transaction->scan(family_, ReadAt::kLatest, options);
    for (cursor->SeekToFirst(); cursor->Valid(); cursor->Next()) keys->push_back(cursor->key().ToString());
    return Status::Ok();
  }

 private:
  Manager *manager_;
  lsm::Family *family_;
};

class PhantomHunt {
 public:
  PhantomHunt(Manager *manager, lsm::Family *family) : manager_(manager), family_(family) {}

  void run(uint64_t seed) {
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < 3; ++i) threads.emplace_back([this, seed, i] { insert_some(seed + i); });
    for (uint64_t i = 0; i < 3; ++i) threads.emplace_back([this, seed, i] { read_twice(seed ^ (i + 99)); });
    for (std::thread &thread : threads) thread.join();
    std::printf("  %d ranges read twice, %d rows inserted, %llu waits, %llu deadlocks\n", read_.load(),
                inserted_.load(), static_cast<unsigned long long>(manager_->locks()->waits()),
                static_cast<unsigned long long>(manager_->locks()->deadlocks()));
    EXPECT_GT(read_, 0);
    EXPECT_GT(inserted_, 0);
  }

 private:
  static constexpr uint64_t kKeys = 40;
  static std::string key(uint64_t number) { return kIndex + static_cast<char>('A' + number); }
  bool over() const { return std::chrono::steady_clock::now() > end_ || ::testing::Test::HasFailure(); }
  static void expect_known(const Status &status) {
    EXPECT_TRUE(status.ok() || status.code() == Code::kDeadlock) << status.message();
  }

  void insert_some(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (uint64_t round = 0; !over(); ++round) {
      auto transaction = manager_->begin(nullptr);
      Status status;
      for (uint64_t i = 0; i < 1 + random() % 3 && status.ok(); ++i) {
        const std::string at = key(random() % kKeys);
        status = manager_->locks()->lock(transaction->lock_owner(), {family_->id(), at}, LockMode::kExclusive,
                                         kLong, nullptr);
        if (!status.ok()) break;
        if (random() % 2 == 0)
          status = transaction->insert(family_, at, "v", kLong);
        else
          status = transaction->remove(family_, at);
      }
      expect_known(status);
      const uint64_t way = random() % 4;
      if (!status.ok() || way == 0) {
        transaction->rollback();
      } else if (way == 1) {
        const std::string xid = std::to_string(seed) + "." + std::to_string(round);
        ASSERT_TRUE(transaction->prepare(xid, false).ok());
        ASSERT_TRUE(transaction->commit_prepared(false).ok());
      } else {
        ASSERT_TRUE(transaction->commit(false).ok());
      }
      ++inserted_;
    }
  }

  void read_twice(uint64_t seed) {
    std::mt19937_64 random(seed);
    LockingReader reader(manager_, family_);
    while (!over()) {
      auto transaction = manager_->begin(nullptr);
      const uint64_t from = random() % kKeys;
      const std::string lower = key(from), upper = key(from + 1 + random() % 12);
      std::vector<std::string> first, second;
      Status status = reader.read(transaction.get(), lower, upper, &first);
      // Lock the rows found, as the handler does, so that no other transaction can delete them.
      for (size_t i = 0; i < first.size() && status.ok(); ++i) {
        status = manager_->locks()->lock(transaction->lock_owner(), {family_->id(), first[i]},
                                         LockMode::kShared, kLong, nullptr);
      }
      if (status.ok()) status = reader.read(transaction.get(), lower, upper, &first);
      for (int i = 0; i < 50; ++i) std::this_thread::yield();
      if (status.ok()) status = reader.read(transaction.get(), lower, upper, &second);
      expect_known(status);
      if (status.ok()) {
        ++read_;
        for (const std::string &found : second) {
          ASSERT_TRUE(std::find(first.begin(), first.end(), found) != first.end()) << "phantom " << found;
        }
      }
    }
  }

  Manager *manager_;
  lsm::Family *family_;
  const std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  std::atomic<int> read_{0}, inserted_{0};
};

TEST_F(RangeTest, NoPhantomAppearsInALockedRange) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  PhantomHunt(manager.get(), family).run(seed);
}

}  // namespace
}  // namespace atoll::txn
