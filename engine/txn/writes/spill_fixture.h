// For tests only: a database whose transactions go to local disk after a few writes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "txn/test_database.h"
#include "txn/test_file_system.h"
#include "txn/transaction.h"

namespace atoll::txn {

using Rows = std::map<std::string, std::string>;

class SpillTest : public ::testing::Test {
 protected:
  ~SpillTest() override { close(); }

  void open(uint64_t memory = 64 << 10) {
    database = std::make_unique<TestDatabase>(directory.path(), env.get());
    main = database->shared_family();
    other = database->catalog_family();
    temp = database->temp_family();
    const Status status = Manager::open(database.get(), database.get(), &manager);
    ASSERT_TRUE(status.ok()) << status.message();
    manager->set_transaction_memory(memory);
  }
  void close() {
    manager.reset();
    database.reset();
  }

  static std::string key(uint64_t number) {
    char text[32];
    std::snprintf(text, sizeof text, "index-%08llu", static_cast<unsigned long long>(number));
    return text;
  }

  // Writes more than the transaction can keep in memory, so that it goes to disk.
  void write_much(Transaction *transaction, lsm::Family *family, const std::string &value) {
    for (uint64_t i = 0; i < kMany; ++i) {
      ASSERT_TRUE(manager->locks()
                      ->lock(transaction->lock_owner(), {family->id(), key(i)}, LockMode::kExclusive,
                             LockWait{0}, nullptr)
                      .ok());
      ASSERT_TRUE(transaction->put(family, key(i), value + std::to_string(i)).ok());
    }
  }

  Rows scan(Transaction *transaction, lsm::Family *family, ReadAt at = ReadAt::kLatest) {
    Rows rows;
    auto iterator = transaction->scan(family, at, ScanOptions());
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      rows[iterator->key().ToString()] = iterator->value().ToString();
    }
    EXPECT_TRUE(iterator->status().ok());
    Rows backward;
    for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) {
      backward[iterator->key().ToString()] = iterator->value().ToString();
    }
    EXPECT_EQ(rows, backward);
    return rows;
  }
  size_t count(lsm::Family *family) { return scan(manager->begin(nullptr).get(), family).size(); }
  size_t directories() {
    size_t count = 0;
    std::error_code ignored;
    for (const auto &entry : std::filesystem::directory_iterator(database->spill_directory(), ignored))
      count += entry.exists() ? 1 : 0;
    return count;
  }

  // Runs `work` in a child process, which then ends as if by kill -9.
  void crash(const std::function<void()> &work) {
    const pid_t child = fork();
    if (child == 0) {
      open();
      work();
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }

  static constexpr uint64_t kMany = 2000;
  TestDirectory directory;
  FileFaults faults;
  std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(&faults));
  std::unique_ptr<TestDatabase> database;
  std::unique_ptr<Manager> manager;
  lsm::Family *main = nullptr, *other = nullptr, *temp = nullptr;
};

}  // namespace atoll::txn
