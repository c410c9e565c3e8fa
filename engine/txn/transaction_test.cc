// Goal:   a transaction reads, writes, rolls back and commits as transaction.h says.
// Method: short sequences of steps of two transactions, over real databases in a temporary directory.
//         Failures are injected into WAL writes. Many threads raise one counter, which shows lost updates.

#include "txn/transaction.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <thread>

#include "txn/test_database.h"
#include "txn/test_file_system.h"

namespace atoll::txn {
namespace {

class TransactionTest : public ::testing::Test {
 protected:
  TransactionTest() { open(); }
  ~TransactionTest() override { close(); }

  void open() {
    database = std::make_unique<TestDatabase>(directory.path(), env.get());
    main = database->shared_family();
    temp = database->temp_family();
    ASSERT_TRUE(Manager::open(database.get(), database.get(), &manager).ok());
  }
  void close() {
    manager.reset();
    database.reset();
  }
  // Reopens the database. All rows are in files then, and each read of a file takes 2 ms.
  void reopen_with_slow_files() {
    ASSERT_TRUE(database->flush(main).ok());
    close();
    open();
    faults.read_delay_us = 2000;
    faults.reads_at_once_max = 0;
  }

  static std::string read(Transaction *transaction, lsm::Family *family, std::string_view key,
                          ReadAt at = ReadAt::kSnapshot) {
    rocksdb::PinnableSlice value;
    const Status status = transaction->get(family, key, at, &value);
    return status.ok() ? value.ToString() : std::string("(") + code_name(status.code()) + ")";
  }

  static std::map<std::string, std::string> scan(Transaction *transaction, lsm::Family *family, ReadAt at) {
    std::map<std::string, std::string> rows;
    auto iterator = transaction->scan(family, at, {});
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
      rows[iterator->key().ToString()] = iterator->value().ToString();
    }
    EXPECT_TRUE(iterator->status().ok());
    return rows;
  }

  std::string committed(lsm::Family *family, std::string_view key) {
    return read(manager->begin(nullptr).get(), family, key, ReadAt::kLatest);
  }

  void put_committed(lsm::Family *family, std::string_view key, std::string_view value) {
    auto transaction = manager->begin(nullptr);
    ASSERT_TRUE(transaction->put(family, key, value).ok());
    ASSERT_TRUE(transaction->commit(false).ok());
  }

  uint64_t sequence(lsm::Side side) { return database->db(side)->GetLatestSequenceNumber(); }

  TestDirectory directory;
  FileFaults faults;
  std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(&faults));
  std::unique_ptr<TestDatabase> database;
  std::unique_ptr<Manager> manager;
  lsm::Family *main = nullptr;
  lsm::Family *temp = nullptr;
};

using Rows = std::map<std::string, std::string>;

TEST_F(TransactionTest, OwnWritesAreReadByAllPathsAndOnlyByTheOwner) {
  put_committed(main, "a", "1");
  put_committed(main, "b", "2");
  auto writer = manager->begin(nullptr);
  auto other = manager->begin(nullptr);
  ASSERT_TRUE(writer->put(main, "b", "mine").ok());
  ASSERT_TRUE(writer->put(main, "c", "").ok());
  ASSERT_TRUE(writer->remove(main, "a").ok());
  EXPECT_EQ(read(writer.get(), main, "a"), "(not found)");
  EXPECT_EQ(read(writer.get(), main, "b", ReadAt::kLatest), "mine");
  EXPECT_EQ(scan(writer.get(), main, ReadAt::kLatest), (Rows{{"b", "mine"}, {"c", ""}}));
  EXPECT_EQ(scan(other.get(), main, ReadAt::kLatest), (Rows{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(writer->write_count(), 3u);
  EXPECT_TRUE(writer->has_writes(lsm::Side::kMain));
  EXPECT_FALSE(writer->has_writes(lsm::Side::kTemp));
  ASSERT_TRUE(writer->commit(true).ok());
  EXPECT_EQ(scan(other.get(), main, ReadAt::kLatest), (Rows{{"b", "mine"}, {"c", ""}}));
}

TEST_F(TransactionTest, SameKeyInTwoFamilies) {
  auto writer = manager->begin(nullptr);
  ASSERT_TRUE(writer->put(main, "k", "main").ok());
  ASSERT_TRUE(writer->put(temp, "k", "temp").ok());
  ASSERT_TRUE(writer->put(database->catalog_family(), "k", "catalog").ok());
  ASSERT_TRUE(writer->remove(main, "k").ok());
  EXPECT_EQ(read(writer.get(), main, "k"), "(not found)");
  EXPECT_EQ(read(writer.get(), temp, "k"), "temp");
  ASSERT_TRUE(writer->commit(false).ok());
  EXPECT_EQ(committed(main, "k"), "(not found)");
  EXPECT_EQ(committed(temp, "k"), "temp");
  EXPECT_EQ(committed(database->catalog_family(), "k"), "catalog");
}

TEST_F(TransactionTest, SnapshotLatestAndReadCommitted) {
  put_committed(main, "k", "old");
  auto reader = manager->begin(nullptr);
  EXPECT_EQ(reader->snapshot(lsm::Side::kMain), nullptr);
  reader->make_snapshot();
  const rocksdb::Snapshot *first = reader->snapshot(lsm::Side::kMain);
  put_committed(main, "k", "new");
  reader->make_snapshot();
  EXPECT_EQ(reader->snapshot(lsm::Side::kMain), first) << "an existing snapshot is kept";
  EXPECT_EQ(read(reader.get(), main, "k"), "old");
  EXPECT_EQ(read(reader.get(), main, "k", ReadAt::kLatest), "new");
  EXPECT_EQ(scan(reader.get(), main, ReadAt::kSnapshot), (Rows{{"k", "old"}}));
  EXPECT_EQ(scan(reader.get(), main, ReadAt::kLatest), (Rows{{"k", "new"}}));
  ASSERT_TRUE(reader->put(main, "z", "own").ok());
  EXPECT_EQ(scan(reader.get(), main, ReadAt::kSnapshot), (Rows{{"k", "old"}, {"z", "own"}}));
  reader->release_snapshot();
  EXPECT_FALSE(reader->has_snapshot());
  reader->make_snapshot();
  EXPECT_EQ(read(reader.get(), main, "k"), "new");
}

TEST_F(TransactionTest, MultiGetUnsortedWithOwnMissingAndRepeatedKeys) {
  for (const char *key : {"a", "b", "c", "d"}) put_committed(main, key, std::string("db ") + key);
  auto transaction = manager->begin(nullptr);
  transaction->make_snapshot();
  put_committed(main, "d", "newer");
  ASSERT_TRUE(transaction->put(main, "b", "own b").ok());
  ASSERT_TRUE(transaction->remove(main, "c").ok());
  const std::vector<rocksdb::Slice> keys = {"d", "nowhere", "b", "a", "c", "d"};
  std::vector<rocksdb::PinnableSlice> values;
  std::vector<Status> statuses;
  const auto shown = [&](ReadAt at) {
    transaction->multi_get(main, keys, at, &values, &statuses);
    std::vector<std::string> all;
    for (size_t i = 0; i < keys.size(); ++i) {
      all.push_back(statuses[i].ok() ? values[i].ToString() : code_name(statuses[i].code()));
    }
    return all;
  };
  EXPECT_EQ(shown(ReadAt::kSnapshot),
            (std::vector<std::string>{"db d", "not found", "own b", "db a", "not found", "db d"}));
  EXPECT_EQ(shown(ReadAt::kLatest),
            (std::vector<std::string>{"newer", "not found", "own b", "db a", "not found", "newer"}));
}

// A multi_get() of values that together exceed kMultiGetBytesMax leaves some out. Reads the values from the
// memtable first, then from table files, where each read takes 2 ms.
TEST_F(TransactionTest, LargeMultiGetLeavesOutWhatIsTooMuch) {
  constexpr size_t kValueBytes = 1 << 20;
  constexpr size_t kValues = 3 * Transaction::kMultiGetBytesMax / kValueBytes;
  std::vector<std::string> names;
  for (size_t i = 0; i < kValues; ++i) {
    names.push_back(std::to_string((i * 7) % kValues));
    put_committed(main, names.back(), std::string(kValueBytes, 'x') + names.back());
  }
  const std::vector<rocksdb::Slice> keys(names.begin(), names.end());
  for (int restarted = 0; restarted < 2; ++restarted) {
    auto transaction = manager->begin(nullptr);
    std::vector<rocksdb::PinnableSlice> values;
    std::vector<Status> statuses;
    const std::vector<size_t> left_out =
        transaction->multi_get(main, keys, ReadAt::kLatest, &values, &statuses);
    EXPECT_TRUE(std::is_sorted(left_out.begin(), left_out.end()));
    EXPECT_EQ(kValues - left_out.size(), Transaction::kMultiGetBytesMax / kValueBytes - 1);
    for (size_t i = 0; i < kValues; ++i) {
      if (std::binary_search(left_out.begin(), left_out.end(), i)) {
        EXPECT_TRUE(values[i].empty());
      } else {
        ASSERT_TRUE(statuses[i].ok()) << statuses[i].message();
        ASSERT_EQ(values[i].ToString(), std::string(kValueBytes, 'x') + names[i]);
      }
    }
    if (restarted == 1) return;
    values.clear();
    transaction.reset();
    reopen_with_slow_files();
  }
}

// Reads from memory first. Then, after a flush and a restart with an empty cache, reads from slow files.
TEST_F(TransactionTest, LargeMultiGetMatchesGet) {
  auto writer = manager->begin(nullptr);
  for (int i = 0; i < 3000; i += 2) {
    ASSERT_TRUE(writer->put(main, std::to_string(i), "v" + std::to_string(i) + std::string(200, '.')).ok());
  }
  ASSERT_TRUE(writer->commit(false).ok());
  writer.reset();
  std::vector<std::string> names;
  for (int i = 0; i < 3000; ++i) names.push_back(std::to_string((i * 7919) % 3000));
  const std::vector<rocksdb::Slice> keys(names.begin(), names.end());
  for (int restarted = 0; restarted < 2; ++restarted) {
    auto transaction = manager->begin(nullptr);
    std::vector<rocksdb::PinnableSlice> values;
    std::vector<Status> statuses;
    transaction->multi_get(main, keys, ReadAt::kLatest, &values, &statuses);
    for (size_t i = 0; i < keys.size(); ++i) {
      const bool even = std::stoi(names[i]) % 2 == 0;
      ASSERT_EQ(statuses[i].code(), even ? Code::kOk : Code::kNotFound) << names[i] << statuses[i].message();
      if (even) {
        ASSERT_EQ(values[i].ToString(), "v" + names[i] + std::string(200, '.'));
      }
    }
    if (restarted == 1) {
      EXPECT_GT(faults.reads_at_once_max, 1) << "a cold batch waits for several reads at a time";
      return;
    }
    values.clear();
    transaction.reset();
    reopen_with_slow_files();
  }
}

TEST_F(TransactionTest, SavepointsOnBothSides) {
  auto transaction = manager->begin(nullptr);
  EXPECT_EQ(transaction->set_savepoint(), 0u);
  ASSERT_TRUE(transaction->put(main, "a", "1").ok());
  EXPECT_EQ(transaction->set_savepoint(), 1u);
  ASSERT_TRUE(transaction->put(main, "a", "2").ok());
  ASSERT_TRUE(transaction->put(temp, "t", "2").ok()) << "first temp write, after the savepoints";
  EXPECT_EQ(transaction->set_savepoint(), 2u);
  ASSERT_TRUE(transaction->remove(temp, "t").ok());
  ASSERT_TRUE(transaction->rollback_to_savepoint(2).ok());
  EXPECT_EQ(read(transaction.get(), temp, "t"), "2");
  ASSERT_TRUE(transaction->rollback_to_savepoint(1).ok());
  EXPECT_EQ(read(transaction.get(), main, "a"), "1");
  EXPECT_EQ(read(transaction.get(), temp, "t"), "(not found)");
  EXPECT_FALSE(transaction->has_writes(lsm::Side::kTemp));
  EXPECT_EQ(transaction->rollback_to_savepoint(2).code(), Code::kBug) << "it went with the rollback";
  ASSERT_TRUE(transaction->put(main, "b", "kept").ok());
  ASSERT_TRUE(transaction->rollback_to_savepoint(1).ok()) << "the savepoint itself stays";
  EXPECT_EQ(read(transaction.get(), main, "b"), "(not found)");
  ASSERT_TRUE(transaction->put(main, "b", "kept").ok());
  transaction->release_savepoint(1);
  EXPECT_EQ(transaction->set_savepoint(), 1u);
  EXPECT_EQ(read(transaction.get(), main, "b"), "kept");
  ASSERT_TRUE(transaction->commit(false).ok());
  EXPECT_EQ(committed(main, "a"), "1");
  EXPECT_EQ(committed(main, "b"), "kept");
}

TEST_F(TransactionTest, LocksStayOverSavepointRollback) {
  auto transaction = manager->begin(nullptr);
  transaction->set_savepoint();
  const LockKey row{main->id(), "row"};
  ASSERT_TRUE(
      manager->locks()->lock(transaction->lock_owner(), row, LockMode::kExclusive, {0}, nullptr).ok());
  ASSERT_TRUE(transaction->put(main, "row", "x").ok());
  ASSERT_TRUE(transaction->rollback_to_savepoint(0).ok());
  EXPECT_TRUE(manager->locks()->holds(transaction->lock_owner(), row, LockMode::kExclusive));
}

TEST_F(TransactionTest, EmptyAndReadOnlyTransactionsWriteNothing) {
  const uint64_t before = sequence(lsm::Side::kMain), bytes = faults.appended_bytes;
  auto transaction = manager->begin(nullptr);
  transaction->make_snapshot();
  transaction->set_savepoint();
  EXPECT_EQ(read(transaction.get(), main, "k"), "(not found)");
  ASSERT_TRUE(transaction->put(main, "undone", "x").ok());
  ASSERT_TRUE(transaction->rollback_to_savepoint(0).ok());
  ASSERT_TRUE(transaction->commit(true).ok());
  EXPECT_EQ(sequence(lsm::Side::kMain), before);
  EXPECT_EQ(faults.appended_bytes, bytes);
}

TEST_F(TransactionTest, SyncAndWalPerSide) {
  const auto commit = [&](lsm::Family *family, bool sync) {
    auto transaction = manager->begin(nullptr);
    EXPECT_TRUE(transaction->put(family, "k", "v").ok());
    const uint64_t bytes = faults.appended_bytes, syncs = faults.syncs;
    EXPECT_TRUE(transaction->commit(sync).ok());
    return std::pair<bool, bool>(faults.appended_bytes > bytes, faults.syncs > syncs);
  };
  EXPECT_EQ(commit(main, true), (std::pair<bool, bool>(true, true)));
  EXPECT_EQ(commit(main, false), (std::pair<bool, bool>(true, false)));
  EXPECT_EQ(commit(temp, true), (std::pair<bool, bool>(false, false)));
}

TEST_F(TransactionTest, CommitPositionIsTakenAfterTheWrite) {
  manager->set_wal_position([&] { return faults.appended_bytes.load(); });
  auto transaction = manager->begin(nullptr);
  EXPECT_EQ(transaction->commit_position(), 0u);
  ASSERT_TRUE(transaction->put(main, "k", "v").ok());
  ASSERT_TRUE(transaction->commit(false).ok());
  EXPECT_EQ(transaction->commit_position(), faults.appended_bytes.load());
  EXPECT_GT(transaction->commit_position(), 0u);
}

TEST_F(TransactionTest, FailedCommitLeavesNothing) {
  put_committed(main, "m", "before");
  put_committed(temp, "t", "before");
  auto transaction = manager->begin(nullptr);
  const LockKey row{main->id(), "m"};
  ASSERT_TRUE(
      manager->locks()->lock(transaction->lock_owner(), row, LockMode::kExclusive, {0}, nullptr).ok());
  ASSERT_TRUE(transaction->put(main, "m", "after").ok());
  ASSERT_TRUE(transaction->put(main, "m2", "after").ok());
  ASSERT_TRUE(transaction->put(temp, "t", "after").ok());
  ASSERT_TRUE(transaction->put(temp, "t2", "after").ok());
  faults.fail_appends = true;
  const Status status = transaction->commit(true);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(std::string(status.message()).find("injected"), std::string::npos) << status.message();
  EXPECT_EQ(transaction->lock_owner()->locks_held(), 0u);
  EXPECT_EQ(transaction->write_count(), 0u);
  for (int reopened = 0; reopened < 2; ++reopened) {
    EXPECT_EQ(committed(main, "m"), "before");
    EXPECT_EQ(committed(main, "m2"), "(not found)");
    if (reopened == 0) {
      EXPECT_EQ(committed(temp, "t"), "before");
      EXPECT_EQ(committed(temp, "t2"), "(not found)");
      transaction.reset();
      close();
      faults.fail_appends = false;
      open();
    }
  }
}

TEST_F(TransactionTest, DestructionRollsBackAndReleases) {
  auto transaction = manager->begin(nullptr);
  const LockKey row{main->id(), "row"};
  ASSERT_TRUE(
      manager->locks()->lock(transaction->lock_owner(), row, LockMode::kExclusive, {0}, nullptr).ok());
  ASSERT_TRUE(transaction->put(main, "row", "x").ok());
  transaction.reset();
  EXPECT_TRUE(manager->locks()->list().empty());
  EXPECT_EQ(committed(main, "row"), "(not found)");
}

TEST_F(TransactionTest, AsGoodAsNewAfterCommit) {
  auto transaction = manager->begin(nullptr);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(transaction->set_savepoint(), 0u);
    EXPECT_FALSE(transaction->has_snapshot());
    EXPECT_EQ(transaction->write_count(), 0u);
    transaction->make_snapshot();
    ASSERT_TRUE(transaction->put(main, "k" + std::to_string(i), "x").ok());
    ASSERT_TRUE(transaction->commit(false).ok());
  }
  EXPECT_EQ(scan(transaction.get(), main, ReadAt::kLatest).size(), 3u);
}

TEST_F(TransactionTest, IteratorOutlivesItsTransaction) {
  put_committed(main, "a", "1");
  auto transaction = manager->begin(nullptr);
  transaction->make_snapshot();
  ASSERT_TRUE(transaction->put(main, "b", "2").ok());
  auto iterator = transaction->scan(main, ReadAt::kSnapshot, {});
  iterator->SeekToFirst();
  ASSERT_TRUE(transaction->commit(false).ok());
  transaction.reset();
  iterator->Next();
  ASSERT_TRUE(iterator->Valid());
  EXPECT_EQ(iterator->value().ToString(), "2");
  iterator->Next();
  EXPECT_FALSE(iterator->Valid());
}

TEST_F(TransactionTest, ListShowsRunningTransactions) {
  int user = 0;
  auto transaction = manager->begin(&user);
  ASSERT_TRUE(transaction->put(main, "k", "v").ok());
  const LockKey row{main->id(), "k"};
  ASSERT_TRUE(manager->locks()->lock(transaction->lock_owner(), row, LockMode::kShared, {0}, nullptr).ok());
  const std::vector<TransactionInfo> all = manager->list();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].user, &user);
  EXPECT_EQ(all[0].writes, 1u);
  EXPECT_EQ(all[0].locks, 1u);
  EXPECT_FALSE(all[0].prepared);
  EXPECT_GT(all[0].started_us, 0u);
  transaction.reset();
  EXPECT_TRUE(manager->list().empty());
}

TEST_F(TransactionTest, WriteLimitFailsOneWriteAndKeepsTheRest) {
  manager->set_write_bytes_max(1 << 20);
  auto transaction = manager->begin(nullptr);
  const std::string value(10000, 'v');
  int written = 0;
  Status status;
  for (transaction->set_savepoint(); status.ok() && written < 1000; ++written) {
    status = transaction->put(main, std::to_string(written), value);
  }
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_GT(written, 50);
  EXPECT_LT(written, 110);
  EXPECT_EQ(read(transaction.get(), main, "0"), value);
  ASSERT_TRUE(transaction->rollback_to_savepoint(0).ok());
  EXPECT_TRUE(transaction->put(main, "small", "fits again").ok());
  EXPECT_TRUE(transaction->commit(false).ok());
}

// The steps of a unique check: lock the absent key, then read its latest version. Exactly one of the threads
// inserts each key.
TEST_F(TransactionTest, UniqueCheckOfAnAbsentKeyAdmitsOne) {
  constexpr int kThreads = 4, kKeys = 200;
  std::atomic<int> inserted{0}, duplicates{0};
  const auto insert_all = [&] {
    for (int i = 0; i < kKeys; ++i) {
      auto transaction = manager->begin(nullptr);
      transaction->make_snapshot();
      const std::string key = "unique " + std::to_string(i);
      ASSERT_TRUE(
          manager->locks()
              ->lock(transaction->lock_owner(), {main->id(), key}, LockMode::kExclusive, {60000}, nullptr)
              .ok());
      if (read(transaction.get(), main, key, ReadAt::kLatest) != "(not found)") {
        ++duplicates;
        continue;
      }
      ASSERT_TRUE(transaction->put(main, key, "x").ok());
      ASSERT_TRUE(transaction->commit(false).ok());
      ++inserted;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(insert_all);
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(inserted, kKeys);
  EXPECT_EQ(duplicates, kKeys * (kThreads - 1));
}

// Each thread locks the row and then reads its latest version. Increments would get lost if locks were
// released before the commit is visible, or if the read were older than the lock.
TEST_F(TransactionTest, LockedIncrementsAreNeverLost) {
  constexpr int kThreads = 4, kIncrements = 500;
  put_committed(main, "counter", "0");
  const auto increment = [&] {
    for (int i = 0; i < kIncrements; ++i) {
      auto transaction = manager->begin(nullptr);
      const LockKey row{main->id(), "counter"};
      bool waited = false;
      ASSERT_TRUE(manager->locks()
                      ->lock(transaction->lock_owner(), row, LockMode::kExclusive, {60000}, &waited)
                      .ok());
      const int value = std::stoi(read(transaction.get(), main, "counter", ReadAt::kLatest));
      ASSERT_TRUE(transaction->put(main, "counter", std::to_string(value + 1)).ok());
      ASSERT_TRUE(transaction->commit(false).ok());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(increment);
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(committed(main, "counter"), std::to_string(kThreads * kIncrements));
}

}  // namespace
}  // namespace atoll::txn
