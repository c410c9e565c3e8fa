// Goal:   a transaction whose writes are on local disk reads, rolls back and commits like one in memory
//         (WRITE-1 to WRITE-5 of write_set.h and spill.h). After a crash at any step, either all of its
//         writes are there or none.
// Method: random operations with a tiny memory limit, compared with a model made of std::map copies. A crash
//         is a child process that ends at a given step without any clean-up. Failures are injected into WAL
//         writes. Seeds are printed.

#include <filesystem>
#include <random>

#include "txn/writes/spill_fixture.h"

namespace atoll::txn {
namespace {

// Makes random steps on the transaction and on a model of it. Each savepoint keeps a copy of the model.
struct Stepper {
  Transaction *transaction;
  lsm::Family *families[2];
  Rows rows[2];
  std::vector<std::array<Rows, 2>> savepoints;

  void step(std::mt19937_64 &random) {
    const uint64_t what = random() % 1000;
    const size_t of = random() % 2;
    const std::string key = "index-" + std::to_string(random() % 400);
    if (what < 700) {
      const std::string value(random() % 60, static_cast<char>('a' + random() % 26));
      ASSERT_TRUE(transaction->put(families[of], key, value).ok());
      rows[of][key] = value;
    } else if (what < 950) {
      ASSERT_TRUE(transaction->remove(families[of], key).ok());
      rows[of].erase(key);
    } else if (what < 975) {
      transaction->set_savepoint();
      savepoints.push_back({rows[0], rows[1]});
    } else if (!savepoints.empty()) {
      const size_t number = random() % savepoints.size();
      if (what < 990) {
        ASSERT_TRUE(transaction->rollback_to_savepoint(number).ok());
        savepoints.resize(number + 1);
        rows[0] = savepoints.back()[0];
        rows[1] = savepoints.back()[1];
      } else {
        transaction->release_savepoint(number);
        savepoints.resize(number);
      }
    }
  }
};

TEST_F(SpillTest, RandomOperationsOnDiskMatchTheModel) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  open(48 << 10);
  uint64_t spilled = 0;
  Rows committed[2];
  for (uint64_t round = 0; round < 30; ++round) {
    std::mt19937_64 random(seed + round);
    auto transaction = manager->begin(nullptr);
    Stepper stepper{transaction.get(), {main, temp}, {committed[0], committed[1]}, {}};
    for (int i = 0; i < 1500; ++i) {
      stepper.step(random);
      ASSERT_FALSE(HasFatalFailure());
      if (i % 150 != 0) continue;
      const size_t of = random() % 2;
      auto cursor = transaction->scan(stepper.families[of], ReadAt::kLatest, ScanOptions());
      const Rows before = stepper.rows[of];
      for (int more = 0; more < 150; ++more) {
        const std::string key = "index-" + std::to_string(random() % 400);
        ASSERT_TRUE(transaction->put(stepper.families[of], key, "written after opening").ok());
        stepper.rows[of][key] = "written after opening";
      }
      Rows seen;
      for (cursor->SeekToFirst(); cursor->Valid(); cursor->Next())
        seen[cursor->key().ToString()] = cursor->value().ToString();
      ASSERT_EQ(seen, before) << "round " << round << " step " << i;
      for (const size_t side : {0, 1}) {
        ASSERT_EQ(scan(transaction.get(), stepper.families[side]), stepper.rows[side]) << "round " << round;
      }
      const std::string key = "index-" + std::to_string(random() % 400);
      rocksdb::PinnableSlice value;
      const Code code = transaction->get(main, key, ReadAt::kLatest, &value).code();
      ASSERT_EQ(code == Code::kOk, stepper.rows[0].contains(key));
      if (code == Code::kOk) {
        ASSERT_EQ(value.ToString(), stepper.rows[0][key]);
      }
    }
    spilled += transaction->is_spilled() ? 1 : 0;
    if (round % 3 == 2) {
      transaction->rollback();
    } else {
      const Status status = transaction->commit(false);
      ASSERT_TRUE(status.ok()) << status.message();
      committed[0] = stepper.rows[0];
      committed[1] = stepper.rows[1];
    }
    auto reader = manager->begin(nullptr);
    ASSERT_EQ(scan(reader.get(), main), committed[0]) << "round " << round;
    ASSERT_EQ(scan(reader.get(), temp), committed[1]) << "round " << round;
    ASSERT_EQ(directories(), 0u);
  }
  EXPECT_GT(spilled, 20u);
}

TEST_F(SpillTest, OlderSnapshotsSeeNothingOfIt) {
  open();
  auto first = manager->begin(nullptr);
  write_much(first.get(), main, "old ");
  ASSERT_TRUE(first->commit(true).ok());
  auto reader = manager->begin(nullptr);
  reader->make_snapshot();
  const Rows before = scan(reader.get(), main, ReadAt::kSnapshot);
  ASSERT_EQ(before.size(), kMany);
  auto second = manager->begin(nullptr);
  write_much(second.get(), main, "new ");
  ASSERT_TRUE(second->remove(main, key(7)).ok());
  ASSERT_TRUE(second->commit(true).ok());
  EXPECT_EQ(scan(reader.get(), main, ReadAt::kSnapshot), before);
  EXPECT_EQ(scan(reader.get(), main, ReadAt::kLatest).size(), kMany - 1);
}

TEST_F(SpillTest, RollbackToASavepointDeletesTheFilesBehindIt) {
  open();
  auto transaction = manager->begin(nullptr);
  ASSERT_TRUE(transaction->put(main, "index-a", "1").ok());
  transaction->set_savepoint();
  write_much(transaction.get(), main, "x");
  ASSERT_TRUE(transaction->is_spilled());
  ASSERT_TRUE(transaction->rollback_to_savepoint(0).ok());
  EXPECT_EQ(scan(transaction.get(), main), (Rows{{"index-a", "1"}}));
  size_t files = 0;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(database->spill_directory()))
    files += entry.is_regular_file() ? 1 : 0;
  EXPECT_LE(files, 1u) << "what stood before the savepoint";
  ASSERT_TRUE(transaction->commit(true).ok());
  EXPECT_EQ(count(main), 1u);
}

// The limit of 1,000 parts counts the part of each savepoint once, however often the transaction goes to
// disk.
TEST_F(SpillTest, ManySavepointsDoNotKeepATransactionFromTheDisk) {
  open();
  auto transaction = manager->begin(nullptr);
  for (uint64_t i = 0; i < 600; ++i) {
    ASSERT_TRUE(transaction->put(main, key(i), "before").ok());
    transaction->set_savepoint();
  }
  for (const char *value : {"x", "y", "z"}) write_much(transaction.get(), other, value);
  ASSERT_TRUE(transaction->is_spilled());
  ASSERT_TRUE(transaction->rollback_to_savepoint(299).ok());
  EXPECT_EQ(scan(transaction.get(), other).size(), 0u);
  EXPECT_EQ(scan(transaction.get(), main).size(), 300u);
  ASSERT_TRUE(transaction->commit(true).ok());
}

TEST_F(SpillTest, APreparedOneCommitsAndRollsBack) {
  open();
  for (const bool commit : {false, true}) {
    auto transaction = manager->begin(nullptr);
    write_much(transaction.get(), main, "x");
    write_much(transaction.get(), temp, "y");
    ASSERT_TRUE(transaction->prepare("xid", true).ok());
    EXPECT_EQ(count(main), 0u);
    ASSERT_TRUE(commit ? transaction->commit_prepared(false).ok() : transaction->rollback_prepared().ok());
    EXPECT_EQ(count(main), commit ? kMany : 0u);
    EXPECT_EQ(count(temp), commit ? kMany : 0u);
    EXPECT_EQ(count(other), 0u) << "the marker is gone";
    EXPECT_EQ(directories(), 0u);
  }
}

TEST_F(SpillTest, ACrashBeforeTheCommitLeavesNothing) {
  crash([&] {
    auto transaction = manager->begin(nullptr);
    write_much(transaction.get(), main, "x");
    ASSERT_TRUE(transaction->is_spilled());
    (void)transaction.release();
  });
  open();
  EXPECT_EQ(count(main), 0u);
  EXPECT_EQ(directories(), 0u);
  EXPECT_TRUE(manager->prepared_xids().empty());
}

// The crash comes after the files are written, listed and linked into the database, and before the record
// that names them is written.
TEST_F(SpillTest, ACrashBeforeThePrepareRecordLeavesNothing) {
  crash([&] {
    auto transaction = manager->begin(nullptr);
    write_much(transaction.get(), main, "x");
    faults.fail_appends = true;
    ASSERT_FALSE(transaction->prepare("xid", true).ok());
    (void)transaction.release();
  });
  open();
  EXPECT_EQ(count(main), 0u);
  EXPECT_EQ(directories(), 0u);
  EXPECT_TRUE(manager->prepared_xids().empty());
}

TEST_F(SpillTest, ANewTransactionTakesNoNameOfAPreparedOne) {
  crash([&] {
    auto transaction = manager->begin(nullptr);
    write_much(transaction.get(), main, "x");
    ASSERT_TRUE(transaction->prepare("xid", true).ok());
    (void)transaction.release();
  });
  open();
  auto second = manager->begin(nullptr);
  for (uint64_t i = 0; i < kMany; ++i) ASSERT_TRUE(second->put(other, key(i), "y").ok());
  ASSERT_TRUE(second->is_spilled());
  EXPECT_EQ(directories(), 2u);
  ASSERT_TRUE(second->commit(true).ok());
  EXPECT_EQ(count(main), 0u);
  ASSERT_TRUE(manager->take_prepared("xid")->commit_prepared(true).ok());
  EXPECT_EQ(count(main), kMany);
  EXPECT_EQ(count(other), kMany);
}

TEST_F(SpillTest, ACrashAfterTheCommitLeavesAll) {
  crash([&] {
    auto transaction = manager->begin(nullptr);
    write_much(transaction.get(), main, "x");
    ASSERT_TRUE(transaction->commit(true).ok());
    auto later = manager->begin(nullptr);
    ASSERT_TRUE(later->put(main, key(3), "later").ok());
    ASSERT_TRUE(later->commit(true).ok());
  });
  open();
  EXPECT_EQ(count(main), kMany);
  EXPECT_EQ(scan(manager->begin(nullptr).get(), main)[key(3)], "later");
}

TEST_F(SpillTest, APreparedOneIsInDoubtAfterACrashWithItsLocks) {
  for (const bool commit : {false, true}) {
    crash([&] {
      auto transaction = manager->begin(nullptr);
      write_much(transaction.get(), main, "x");
      ASSERT_TRUE(transaction->prepare("xid", true).ok());
      (void)transaction.release();
    });
    for (int start = 0; start < 2; ++start) {  // a restart in between changes nothing
      open();
      ASSERT_EQ(manager->prepared_xids(), std::vector<std::string>{"xid"});
      EXPECT_EQ(count(main), 0u);
      EXPECT_EQ(manager->locks()
                    ->lock(manager->begin(nullptr)->lock_owner(), {main->id(), key(77)}, LockMode::kShared,
                           LockWait{0}, nullptr)
                    .code(),
                Code::kLockTimeout);
      if (start == 0) close();
    }
    auto transaction = manager->take_prepared("xid");
    const Status status = commit ? transaction->commit_prepared(true) : transaction->rollback_prepared();
    ASSERT_TRUE(status.ok()) << status.message();
    transaction.reset();
    EXPECT_EQ(count(main), commit ? kMany : 0u);
    EXPECT_EQ(directories(), 0u);
    close();
    open();
    EXPECT_EQ(count(main), commit ? kMany : 0u);
    EXPECT_TRUE(manager->prepared_xids().empty());
    close();
  }
}

// The crash comes when the ingestion is durable, but the record that ends the prepared transaction is not.
TEST_F(SpillTest, AMarkerWithoutTheRecordMeansCommitted) {
  crash([&] {
    auto transaction = manager->begin(nullptr);
    write_much(transaction.get(), main, "x");
    ASSERT_TRUE(transaction->prepare("xid", true).ok());
    faults.fail_appends = true;
    ASSERT_TRUE(transaction->commit_prepared(false).ok()) << "what counts is the ingestion";
    (void)transaction.release();
  });
  open();
  EXPECT_TRUE(manager->prepared_xids().empty());
  EXPECT_EQ(count(main), kMany);
  EXPECT_EQ(count(other), 0u) << "the marker is gone";
  EXPECT_EQ(directories(), 0u);
}

TEST_F(SpillTest, LostFilesOfAPreparedOneLeaveOnlyTheRollback) {
  crash([&] {
    auto transaction = manager->begin(nullptr);
    write_much(transaction.get(), main, "x");
    ASSERT_TRUE(transaction->prepare("xid", true).ok());
    (void)transaction.release();
  });
  std::filesystem::remove_all(directory.path() + "/main/spill");
  open();
  auto transaction = manager->take_prepared("xid");
  ASSERT_NE(transaction, nullptr);
  const Status status = transaction->commit_prepared(true);
  EXPECT_EQ(status.code(), Code::kCorruption) << status.message();
  EXPECT_TRUE(transaction->rollback_prepared().ok());
  EXPECT_EQ(count(main), 0u);
}

// The entries of a unique index are in files that overlap. A check for a new value must not read all the
// files.
TEST_F(SpillTest, AnAbsentUniqueStartReadsNoFile) {
  open();
  const size_t length = key(0).size();
  const auto entry = [](uint64_t number) { return key(number) + "primary key"; };
  auto first = manager->begin(nullptr);
  ASSERT_TRUE(first->put(main, entry(4), "committed", length).ok());
  ASSERT_TRUE(first->commit(true).ok());
  auto transaction = manager->begin(nullptr);
  ASSERT_TRUE(transaction->remove(main, entry(4), length).ok());
  for (uint64_t i = 0; i < kMany; ++i) {
    const uint64_t number = 10 + 2 * (i * 7919 % kMany);
    ASSERT_TRUE(transaction->put(main, entry(number), std::string(50, 'v'), length).ok());
  }
  ASSERT_TRUE(transaction->is_spilled());
  const auto is_there = [&](uint64_t number) {
    ScanOptions options;
    options.lower = key(number);
    options.upper = key(number) + "\xff";
    options.unique_start = true;
    auto iterator = transaction->scan(main, ReadAt::kLatest, options);
    iterator->Seek(options.lower);
    EXPECT_TRUE(iterator->status().ok());
    return iterator->Valid();
  };
  EXPECT_FALSE(is_there(4)) << "removed by this transaction";
  for (uint64_t i = 0; i < 200; ++i) EXPECT_TRUE(is_there(10 + 2 * i));
  faults.reads = 0;
  for (uint64_t i = 0; i < 200; ++i) EXPECT_FALSE(is_there(11 + 2 * i));
  EXPECT_LT(faults.reads, 100u);
}

TEST_F(SpillTest, AUniqueStartOfAnyLengthIsFound) {
  open();
  const std::string start(70000, 'u');
  auto transaction = manager->begin(nullptr);
  ASSERT_TRUE(transaction->put(main, start + "primary key", "v", start.size()).ok());
  for (uint64_t i = 0; i < kMany; ++i) ASSERT_TRUE(transaction->put(main, key(i), std::string(50, 'v')).ok());
  ASSERT_TRUE(transaction->is_spilled());
  ScanOptions options;
  options.lower = start;
  options.upper = start + "\xff";
  options.unique_start = true;
  auto iterator = transaction->scan(main, ReadAt::kLatest, options);
  iterator->Seek(options.lower);
  EXPECT_TRUE(iterator->Valid());
}

TEST_F(SpillTest, ManyFilesAreMergedBeforeTheCommit) {
  open();
  for (const bool prepared : {false, true}) {
    auto transaction = manager->begin(nullptr);
    for (uint64_t i = 0; i < kMany; ++i) {
      ASSERT_TRUE(transaction->put(main, key(i * 7919 % kMany), std::string(50, 'v')).ok());
      ASSERT_TRUE(transaction->put(temp, key(i * 7919 % kMany), "t").ok());
    }
    ASSERT_TRUE(!prepared || transaction->prepare("xid", true).ok());
    ASSERT_TRUE(prepared ? transaction->commit_prepared(true).ok() : transaction->commit(true).ok());
    EXPECT_EQ(count(main), kMany);
    EXPECT_EQ(count(temp), kMany);
    std::string files;
    ASSERT_TRUE(
        database->db(lsm::Side::kMain)->GetProperty(main->handle(), "rocksdb.num-files-at-level0", &files));
    EXPECT_LE(std::stoi(files), 1);
    EXPECT_EQ(directories(), 0u);
  }
}

// A statement that finds the disk full rolls back to its savepoint. The transaction goes on as soon as there
// is more space.
TEST_F(SpillTest, AFullDiskFailsTheWriteAndLeavesWhatWasBefore) {
  open();
  auto transaction = manager->begin(nullptr);
  write_much(transaction.get(), main, "before ");
  ASSERT_TRUE(transaction->is_spilled());
  const Rows before = scan(transaction.get(), main);
  for (const int appends : {0, 1, 3}) {
    const size_t savepoint = transaction->set_savepoint();
    faults.table_appends_left = appends;
    Status status;
    for (uint64_t i = 0; i < 10 * kMany && status.ok(); ++i) {
      status = transaction->put(i % 2 == 0 ? main : temp, key(i), "too much");
    }
    EXPECT_EQ(status.code(), Code::kNoSpace) << status.message();
    ASSERT_TRUE(transaction->rollback_to_savepoint(savepoint).ok());
    EXPECT_EQ(scan(transaction.get(), main), before);
    EXPECT_EQ(scan(transaction.get(), temp), Rows());
    transaction->release_savepoint(savepoint);
    faults.table_appends_left = -1;
  }
  ASSERT_TRUE(transaction->put(main, key(kMany), "after").ok());
  const Status status = transaction->commit(true);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(count(main), kMany + 1);
  EXPECT_EQ(count(temp), 0u);
}

TEST_F(SpillTest, AFullDiskAtCommitLeavesNothing) {
  open();
  auto transaction = manager->begin(nullptr);
  write_much(transaction.get(), main, "x");
  faults.table_appends_left = 0;
  EXPECT_EQ(transaction->commit(true).code(), Code::kNoSpace);
  faults.table_appends_left = -1;
  EXPECT_EQ(count(main), 0u);
  EXPECT_EQ(directories(), 0u);
}

TEST_F(SpillTest, FailingToPrepareLeavesNothing) {
  open();
  auto transaction = manager->begin(nullptr);
  write_much(transaction.get(), main, "x");
  faults.fail_appends = true;
  EXPECT_FALSE(transaction->prepare("xid", true).ok());
  transaction->rollback();
  EXPECT_EQ(directories(), 0u);
  faults.fail_appends = false;
}

}  // namespace
}  // namespace atoll::txn
