// Goal:   a prepared transaction survives the end of its connection, a clean stop and a crash, keeps its
//         locks, and is committed or rolled back exactly once.
// Method: short sequences of steps that close and open the databases. The crash is a child process that
//         prepares a transaction and ends without any clean-up. Failures are injected into WAL writes.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "txn/test_database.h"
#include "txn/test_file_system.h"
#include "txn/transaction.h"

namespace atoll::txn {
namespace {

constexpr auto kX = LockMode::kExclusive;

class PreparedTest : public ::testing::Test {
 protected:
  ~PreparedTest() override { close(); }

  void open() {
    database = std::make_unique<TestDatabase>(directory.path(), env.get());
    main = database->shared_family();
    temp = database->temp_family();
    const Status status = Manager::open(database.get(), database.get(), &manager);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  void close() {
    manager.reset();
    database.reset();
  }

  // Returns a prepared transaction that has locked and written `key`.
  std::unique_ptr<Transaction> prepared(std::string_view xid, std::string_view key) {
    auto transaction = manager->begin(&user);
    EXPECT_TRUE(lock(transaction.get(), key).ok());
    EXPECT_TRUE(transaction->put(main, key, "by " + std::string(xid)).ok());
    const Status status = transaction->prepare(xid, true);
    EXPECT_TRUE(status.ok()) << status.message();
    return transaction;
  }

  std::unique_ptr<Transaction> prepared_with_counter(const std::string &name) {
    auto transaction = manager->begin(&user);
    EXPECT_TRUE(lock(transaction.get(), "row of " + name).ok());
    EXPECT_TRUE(transaction->put(main, "row of " + name, name).ok());
    EXPECT_TRUE(transaction->put(database->catalog_family(), "counter", name).ok());
    EXPECT_TRUE(transaction->prepare(name, true).ok());
    return transaction;
  }

  Status lock(Transaction *transaction, std::string_view key) {
    return manager->locks()->lock(transaction->lock_owner(), {main->id(), key}, kX, LockWait{0}, nullptr);
  }

  bool is_locked(std::string_view key) {
    return lock(manager->begin(nullptr).get(), key).code() == Code::kLockTimeout;
  }

  std::string committed(std::string_view key) {
    auto transaction = manager->begin(nullptr);
    rocksdb::PinnableSlice value;
    return transaction->get(main, key, ReadAt::kLatest, &value).ok() ? value.ToString() : "(none)";
  }

  TestDirectory directory;
  FileFaults faults;
  std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(std::make_shared<FaultyFileSystem>(&faults));
  std::unique_ptr<TestDatabase> database;
  std::unique_ptr<Manager> manager;
  lsm::Family *main = nullptr;
  lsm::Family *temp = nullptr;
  int user = 0;
};

// In the group commit of the binary log, the leader of a group writes the commits of the group one after the
// other, while the next group prepares. So a commit must not wait for the sync of another transaction's
// prepare. The test commits `decided` in the middle of that sync.
TEST_F(PreparedTest, SyncOfPrepareDoesNotHoldUpCommits) {
  open();
  auto decided = prepared("decided", "a");
  Status outcome(Code::kBug, "the log was not synced");
  database->on_sync = [&] { outcome = decided->commit_prepared(false); };
  auto other = prepared("other", "b");
  database->on_sync = nullptr;
  EXPECT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_EQ(committed("a"), "by decided");
}

TEST_F(PreparedTest, CommitAndRollback) {
  open();
  auto one = prepared("xid one", "a");
  auto two = prepared("xid two", "b");
  EXPECT_TRUE(one->is_prepared());
  EXPECT_EQ(committed("a"), "(none)");
  EXPECT_TRUE(is_locked("a"));
  EXPECT_EQ(one->put(main, "late", "x").code(), Code::kBug);
  EXPECT_EQ(one->prepare("again", true).code(), Code::kBug);
  const uint64_t syncs = faults.syncs;
  ASSERT_TRUE(one->commit_prepared(false).ok());
  EXPECT_EQ(faults.syncs, syncs);
  EXPECT_FALSE(one->is_prepared());
  EXPECT_EQ(committed("a"), "by xid one");
  EXPECT_FALSE(is_locked("a"));
  ASSERT_TRUE(two->rollback_prepared().ok());
  EXPECT_EQ(committed("b"), "(none)");
  EXPECT_FALSE(is_locked("b"));
  EXPECT_EQ(one->commit_prepared(false).code(), Code::kBug);
  one.reset();
  two.reset();
  close();
  open();
  EXPECT_TRUE(manager->prepared_xids().empty());
  EXPECT_EQ(committed("a"), "by xid one");
  EXPECT_EQ(committed("b"), "(none)");
}

TEST_F(PreparedTest, CommitPositionAndSync) {
  open();
  manager->set_wal_position([&] { return faults.appended_bytes.load(); });
  auto transaction = prepared("x", "a");
  EXPECT_EQ(transaction->commit_position(), 0u);
  const uint64_t syncs = faults.syncs;
  ASSERT_TRUE(transaction->commit_prepared(true).ok());
  EXPECT_GT(faults.syncs.load(), syncs);
  EXPECT_EQ(transaction->commit_position(), faults.appended_bytes.load());
}

TEST_F(PreparedTest, Names) {
  open();
  auto transaction = manager->begin(nullptr);
  ASSERT_TRUE(transaction->put(main, "k", "v").ok());
  EXPECT_EQ(transaction->prepare("", true).code(), Code::kInvalid);
  EXPECT_EQ(transaction->prepare(std::string(513, 'x'), true).code(), Code::kInvalid);
  EXPECT_FALSE(transaction->is_prepared());
  const std::string binary("\0\xff\n", 3);
  auto holder = prepared(binary, "other");
  EXPECT_EQ(transaction->prepare(binary, true).code(), Code::kInvalid) << "the name is taken";
  transaction->rollback();
  auto longest = prepared(std::string(512, 'x'), "k");
  EXPECT_TRUE(longest->is_prepared());
  manager->detach_prepared(std::move(holder));
  EXPECT_EQ(manager->prepared_xids(), std::vector<std::string>{binary});
}

TEST_F(PreparedTest, TempOnlyAndEmptyPrepareTrivially) {
  open();
  const uint64_t bytes = faults.appended_bytes;
  auto temp_only = manager->begin(nullptr);
  auto empty = manager->begin(nullptr);
  ASSERT_TRUE(temp_only->put(temp, "t", "v").ok());
  ASSERT_TRUE(temp_only->prepare("x", true).ok());
  ASSERT_TRUE(empty->prepare("y", true).ok());
  EXPECT_EQ(faults.appended_bytes, bytes);
  ASSERT_TRUE(temp_only->commit_prepared(true).ok());
  ASSERT_TRUE(empty->commit_prepared(true).ok());
  EXPECT_EQ(faults.appended_bytes, bytes);
  rocksdb::PinnableSlice value;
  EXPECT_TRUE(manager->begin(nullptr)->get(temp, "t", ReadAt::kLatest, &value).ok());
}

TEST_F(PreparedTest, BothSidesCommitTogether) {
  open();
  auto transaction = manager->begin(nullptr);
  ASSERT_TRUE(transaction->put(temp, "t", "v").ok());
  ASSERT_TRUE(transaction->put(main, "m", "v").ok());
  ASSERT_TRUE(transaction->prepare("x", true).ok());
  rocksdb::PinnableSlice value;
  EXPECT_FALSE(manager->begin(nullptr)->get(temp, "t", ReadAt::kLatest, &value).ok());
  ASSERT_TRUE(transaction->commit_prepared(false).ok());
  EXPECT_EQ(committed("m"), "v");
  EXPECT_TRUE(manager->begin(nullptr)->get(temp, "t", ReadAt::kLatest, &value).ok());
}

TEST_F(PreparedTest, DetachedSurvivesTheClient) {
  open();
  manager->detach_prepared(prepared("x", "a"));
  manager->detach_prepared(prepared("y", "b"));
  EXPECT_TRUE(is_locked("a"));
  EXPECT_EQ(manager->take_prepared("unknown"), nullptr);
  for (const TransactionInfo &info : manager->list()) {
    EXPECT_TRUE(info.prepared);
    EXPECT_EQ(info.user, nullptr) << "the client's THD is gone";
    EXPECT_EQ(info.writes, 1u);
  }
  auto taken = manager->take_prepared("x");
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(manager->take_prepared("x"), nullptr) << "decided once";
  ASSERT_TRUE(taken->commit_prepared(true).ok());
  EXPECT_EQ(committed("a"), "by x");
  taken.reset();
  ASSERT_TRUE(manager->take_prepared("y")->rollback_prepared().ok());
  EXPECT_TRUE(manager->prepared_xids().empty());
  EXPECT_TRUE(manager->locks()->list().empty());
}

TEST_F(PreparedTest, AWriterIsFoundByItsRange) {
  open();
  EXPECT_EQ(manager->prepared_writer(main, "a", "z"), "");
  {
    auto unprepared = manager->begin(&user);
    ASSERT_TRUE(unprepared->put(main, "index1", "").ok());
    EXPECT_EQ(manager->prepared_writer(main, "a", "z"), "");
  }
  auto transaction = prepared("xid", "index1key");
  EXPECT_EQ(manager->prepared_writer(main, "index1", "index2"), "xid");
  manager->detach_prepared(std::move(transaction));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(manager->prepared_writer(main, "index1", "index2"), "xid");
    EXPECT_EQ(manager->prepared_writer(main, "index2", "index3"), "");
    close();
    open();
  }
  ASSERT_TRUE(manager->take_prepared("xid")->rollback_prepared().ok());
  EXPECT_EQ(manager->prepared_writer(main, "index1", "index2"), "");
}

TEST_F(PreparedTest, TheOutermostKeysThatAreNotCommitted) {
  open();
  const auto outermost = [&](bool last) {
    return manager->outermost_uncommitted(main, "index1", "index2", last);
  };
  EXPECT_EQ(outermost(true), "");
  EXPECT_EQ(outermost(false), "");
  {
    auto committed = manager->begin(&user), open_one = manager->begin(&user), other = manager->begin(&user);
    ASSERT_TRUE(committed->put(main, "index1z", "").ok());
    ASSERT_TRUE(committed->put(main, "index1a", "").ok());
    ASSERT_TRUE(open_one->put(main, "index1c", "").ok());
    ASSERT_TRUE(other->put(main, "index1b", "").ok());
    ASSERT_TRUE(other->put(main, "index2", "").ok());
    ASSERT_TRUE(committed->commit(false).ok());
    EXPECT_EQ(outermost(true), "index1c");
    EXPECT_EQ(outermost(false), "index1b");
  }
  manager->detach_prepared(prepared("xid", "index1key"));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(outermost(true), "index1key");
    EXPECT_EQ(outermost(false), "index1key");
    close();
    open();
  }
  ASSERT_TRUE(manager->take_prepared("xid")->rollback_prepared().ok());
  EXPECT_EQ(outermost(true), "");
}

TEST_F(PreparedTest, RecoveredWithLocksAfterRestart) {
  open();
  auto old = manager->begin(nullptr);
  ASSERT_TRUE(old->put(main, "gone", "x").ok());
  ASSERT_TRUE(old->commit(false).ok());
  auto transaction = manager->begin(nullptr);
  ASSERT_TRUE(transaction->put(main, "a", "1").ok());
  ASSERT_TRUE(transaction->put(main, "a", "2").ok());
  ASSERT_TRUE(transaction->put(database->catalog_family(), "a", "catalog").ok());
  ASSERT_TRUE(transaction->remove(main, "gone").ok());
  ASSERT_TRUE(transaction->prepare("x", true).ok());
  manager->detach_prepared(std::move(transaction));
  old.reset();
  for (int restart = 0; restart < 3; ++restart) {
    close();
    open();
    ASSERT_EQ(manager->prepared_xids(), std::vector<std::string>{"x"});
    // The rows "a" and "gone" of the shared family. Keys of the catalog's family are not locked, because they
    // can be counters, which are written without locks.
    EXPECT_EQ(manager->locks()->list().size(), 2u);
    EXPECT_TRUE(is_locked("a"));
    EXPECT_TRUE(is_locked("gone"));
    EXPECT_FALSE(is_locked("b"));
    EXPECT_EQ(committed("a"), "(none)");
  }
  auto taken = manager->take_prepared("x");
  EXPECT_EQ(taken->write_count(), 3u);
  ASSERT_TRUE(taken->commit_prepared(false).ok());
  EXPECT_EQ(committed("a"), "2");
  EXPECT_EQ(committed("gone"), "(none)");
  EXPECT_FALSE(is_locked("a"));
  taken.reset();
  close();
  open();
  EXPECT_TRUE(manager->prepared_xids().empty());
  EXPECT_EQ(committed("a"), "2");
}

// Transactions write AUTO_INCREMENT counters without locks. So two prepared transactions can have written the
// same counter, and recovery must not take this for two writers of the same row.
// The entry of a unique index is "index1" + value + primary key; its writer locks "index1" + value.
TEST_F(PreparedTest, ARecoveredTransactionKeepsTheLocksOnItsNewUniqueKeys) {
  open();
  auto transaction = manager->begin(&user);
  const std::string start = "index1value";
  ASSERT_TRUE(transaction->put(main, start + "row1", "", start.size()).ok());
  ASSERT_TRUE(transaction->put(main, "index1gone-row1", "", 11).ok());
  ASSERT_TRUE(transaction->remove(main, "index1gone-row1", 11).ok());
  ASSERT_TRUE(transaction->prepare("xid", true).ok());
  manager->detach_prepared(std::move(transaction));
  close();
  open();
  auto other = manager->begin(&user);
  EXPECT_EQ(lock(other.get(), start).code(), Code::kLockTimeout);
  EXPECT_TRUE(lock(other.get(), "index1gone").ok());
  ASSERT_TRUE(manager->take_prepared("xid")->commit_prepared(true).ok());
  EXPECT_TRUE(lock(other.get(), start).ok());
  EXPECT_EQ(committed(start + "row1"), "");
}

TEST_F(PreparedTest, TwoThatWriteTheSameCounterAreBothRecovered) {
  open();
  for (const std::string name : {"x", "y"}) {
    auto transaction = prepared_with_counter(name);
    manager->detach_prepared(std::move(transaction));
  }
  close();
  open();
  EXPECT_EQ(manager->prepared_xids(), (std::vector<std::string>{"x", "y"}));
  EXPECT_TRUE(is_locked("row of x"));
  for (const std::string name : {"x", "y"}) {
    ASSERT_TRUE(manager->take_prepared(name)->commit_prepared(true).ok());
    EXPECT_EQ(committed("row of " + name), name);
  }
}

TEST_F(PreparedTest, RecoveredAfterACrash) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    open();
    auto committed_one = prepared("committed", "a");
    const bool ok = committed_one->commit_prepared(true).ok();
    auto left = prepared("left", "b");
    // As in a crash, no destructor runs.
    ::_exit(ok && left->is_prepared() && !::testing::Test::HasFailure() ? 0 : 1);
  }
  int result = 0;
  ASSERT_EQ(::waitpid(child, &result, 0), child);
  ASSERT_EQ(result, 0);
  open();
  EXPECT_EQ(manager->prepared_xids(), std::vector<std::string>{"left"});
  EXPECT_EQ(committed("a"), "by committed");
  EXPECT_TRUE(is_locked("b"));
  ASSERT_TRUE(manager->take_prepared("left")->rollback_prepared().ok());
  close();
  open();
  EXPECT_TRUE(manager->prepared_xids().empty());
  EXPECT_EQ(committed("b"), "(none)");
}

TEST_F(PreparedTest, FailedCommitStaysPrepared) {
  open();
  auto transaction = prepared("x", "a");
  faults.fail_appends = true;
  EXPECT_EQ(transaction->commit_prepared(true).code(), Code::kUnavailable);
  EXPECT_TRUE(transaction->is_prepared());
  EXPECT_TRUE(is_locked("a"));
  EXPECT_EQ(committed("a"), "(none)");
  manager->detach_prepared(std::move(transaction));
  close();
  faults.fail_appends = false;
  open();
  auto taken = manager->take_prepared("x");
  ASSERT_NE(taken, nullptr);
  ASSERT_TRUE(taken->commit_prepared(true).ok());
  EXPECT_EQ(committed("a"), "by x");
}

// The binary log may have the transaction as committed already. So after the failure only recovery, which
// knows the binary log, is allowed to decide about the transaction.
TEST_F(PreparedTest, FailedCommitOutlivesItsObject) {
  open();
  auto transaction = prepared("x", "a");
  faults.fail_appends = true;
  EXPECT_EQ(transaction->commit_prepared(true).code(), Code::kUnavailable);
  EXPECT_NE(transaction->rollback_prepared().code(), Code::kOk);
  transaction->rollback();
  transaction.reset();
  EXPECT_EQ(manager->prepared_xids(), std::vector<std::string>{"x"});
  EXPECT_TRUE(is_locked("a"));
  for (const TransactionInfo &info : manager->list()) EXPECT_EQ(info.user, nullptr);
  EXPECT_EQ(manager->list().size(), 1u);
  close();
  faults.fail_appends = false;
  open();
  ASSERT_TRUE(manager->take_prepared("x")->commit_prepared(true).ok());
  EXPECT_EQ(committed("a"), "by x");
}

TEST_F(PreparedTest, FailedPrepareRollsBack) {
  open();
  auto transaction = manager->begin(nullptr);
  ASSERT_TRUE(lock(transaction.get(), "a").ok());
  ASSERT_TRUE(transaction->put(main, "a", "x").ok());
  faults.fail_appends = true;
  EXPECT_EQ(transaction->prepare("x", true).code(), Code::kUnavailable);
  EXPECT_FALSE(transaction->is_prepared());
  transaction->rollback();
  EXPECT_FALSE(is_locked("a"));
  transaction.reset();
  close();
  faults.fail_appends = false;
  open();
  EXPECT_TRUE(manager->prepared_xids().empty());
  EXPECT_EQ(committed("a"), "(none)");
}

}  // namespace
}  // namespace atoll::txn
