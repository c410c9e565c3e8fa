// Goal:   transactions are atomic and isolated under load. They move money between accounts in two families,
//         and every reader finds the same total amount of money, at any time.
// Method: writers transfer money with row locks in random order, so that deadlocks happen. Writers commit in
//         one or two phases, roll back to savepoints, or give up. Readers add up all accounts in one
//         snapshot, by scan and by MultiGet. At the end the databases are reopened. The seed is printed.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "txn/test_database.h"
#include "txn/transaction.h"

namespace atoll::txn {
namespace {

constexpr int kAccounts = 12;  // in each of the two families
constexpr int kStartMoney = 1000;

class BankTest : public ::testing::Test {
 protected:
  void open() {
    database = std::make_unique<TestDatabase>(directory.path());
    ASSERT_TRUE(Manager::open(database.get(), database.get(), &manager).ok());
    families = {database->shared_family(), database->catalog_family()};
  }
  void close() {
    manager.reset();
    database.reset();
  }

  static std::string account(int number) { return "account " + std::to_string(number); }

  void create_accounts() {
    auto transaction = manager->begin(nullptr);
    for (lsm::Family *family : families) {
      for (int i = 0; i < kAccounts; ++i) {
        ASSERT_TRUE(transaction->put(family, account(i), std::to_string(kStartMoney)).ok());
      }
    }
    ASSERT_TRUE(transaction->commit(false).ok());
  }

  // Locks an account and adds `amount` to it. Returns the status of the lock or of the access to the row.
  Status add(Transaction *transaction, lsm::Family *family, int number, int amount) {
    const std::string key = account(number);
    ATOLL_RETURN_IF_ERROR(manager->locks()->lock(transaction->lock_owner(), {family->id(), key},
                                                 LockMode::kExclusive, {60000}, nullptr));
    rocksdb::PinnableSlice value;
    ATOLL_RETURN_IF_ERROR(transaction->get(family, key, ReadAt::kLatest, &value));
    return transaction->put(family, key, std::to_string(std::stoi(value.ToString()) + amount));
  }

  Status transfer(Transaction *transaction, std::mt19937_64 &random) {
    const int amount = static_cast<int>(random() % 20);
    lsm::Family *from = families[random() % 2], *to = families[random() % 2];
    ATOLL_RETURN_IF_ERROR(add(transaction, from, static_cast<int>(random() % kAccounts), -amount));
    return add(transaction, to, static_cast<int>(random() % kAccounts), amount);
  }

  void write(uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!stop && !HasFatalFailure()) {
      auto transaction = manager->begin(nullptr);
      Status status = transfer(transaction.get(), random);
      if (status.ok() && random() % 4 == 0) {
        const size_t savepoint = transaction->set_savepoint();
        status = add(transaction.get(), families[0], static_cast<int>(random() % kAccounts), 777);
        if (status.ok()) status = transaction->rollback_to_savepoint(savepoint);
      }
      if (status.ok()) status = end(transaction.get(), random);
      if (status.code() == Code::kDeadlock)
        ++deadlocks;
      else
        ASSERT_TRUE(status.ok()) << status.message();
    }
  }

  Status end(Transaction *transaction, std::mt19937_64 &random) {
    ++ended;
    switch (random() % 5) {
      case 0:
        transaction->rollback();
        return Status::Ok();
      case 1:
      case 2: {
        ATOLL_RETURN_IF_ERROR(transaction->prepare("t" + std::to_string(transaction->id()), false));
        return random() % 4 == 0 ? transaction->rollback_prepared() : transaction->commit_prepared(false);
      }
      default:
        return transaction->commit(false);
    }
  }

  int money_by_scan(Transaction *transaction) {
    int sum = 0;
    for (lsm::Family *family : families) {
      auto iterator = transaction->scan(family, ReadAt::kSnapshot, {});
      for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next())
        sum += std::stoi(iterator->value().ToString());
      EXPECT_TRUE(iterator->status().ok());
    }
    return sum;
  }

  int money_by_multi_get(Transaction *transaction) {
    std::vector<std::string> names;
    for (int i = 0; i < kAccounts; ++i) names.push_back(account(i));
    const std::vector<rocksdb::Slice> keys(names.begin(), names.end());
    int sum = 0;
    for (lsm::Family *family : families) {
      std::vector<rocksdb::PinnableSlice> values;
      std::vector<Status> statuses;
      transaction->multi_get(family, keys, ReadAt::kSnapshot, &values, &statuses);
      for (size_t i = 0; i < keys.size(); ++i) {
        EXPECT_TRUE(statuses[i].ok());
        sum += std::stoi(values[i].ToString());
      }
    }
    return sum;
  }

  void read() {
    auto transaction = manager->begin(nullptr);
    while (!stop && !HasFatalFailure()) {
      transaction->release_snapshot();
      transaction->make_snapshot();
      ASSERT_EQ(money_by_scan(transaction.get()), 2 * kAccounts * kStartMoney);
      ASSERT_EQ(money_by_multi_get(transaction.get()), 2 * kAccounts * kStartMoney);
      ++reads;
    }
  }

  TestDirectory directory;
  std::unique_ptr<TestDatabase> database;
  std::unique_ptr<Manager> manager;
  std::vector<lsm::Family *> families;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> ended{0}, deadlocks{0}, reads{0};
};

TEST_F(BankTest, MoneyIsNeitherMadeNorLost) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  open();
  create_accounts();
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 5; ++i) threads.emplace_back([this, seed, i] { write(seed + i); });
  threads.emplace_back([this] { read(); });
  std::this_thread::sleep_for(std::chrono::seconds(3));
  stop = true;
  for (std::thread &thread : threads) thread.join();
  std::printf("  %llu transfers, %llu deadlocks, %llu sums\n", static_cast<unsigned long long>(ended.load()),
              static_cast<unsigned long long>(deadlocks.load()),
              static_cast<unsigned long long>(reads.load()));
  EXPECT_GT(deadlocks, 0u);
  EXPECT_GT(reads, 0u);
  EXPECT_TRUE(manager->locks()->list().empty());
  EXPECT_TRUE(manager->list().empty());
  close();
  open();
  EXPECT_TRUE(manager->prepared_xids().empty());
  EXPECT_EQ(money_by_scan(manager->begin(nullptr).get()), 2 * kAccounts * kStartMoney);
  close();
}

}  // namespace
}  // namespace atoll::txn
