// Goal:   a transaction that is prepared keeps the locks that guard its writes, and releases the others as
//         KeptLocks says (lock_table.h).
// Method: one transaction takes every kind of lock, some of them exchanged for row ranges. After its prepare,
//         other transactions try to lock and to insert.

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "txn/test_database.h"
#include "txn/transaction.h"

namespace atoll::txn {
namespace {

constexpr auto kS = LockMode::kShared;
constexpr auto kX = LockMode::kExclusive;

class KeptLocksTest : public ::testing::Test {
 protected:
  KeptLocksTest() { EXPECT_TRUE(Manager::open(&database, &database, &manager).ok()); }

  static std::string key(std::string_view end) { return "index-" + std::string(end); }
  Status lock(Transaction *transaction, std::string_view end, LockMode mode, LockUse use = LockUse::kRead,
              uint64_t timeout_ms = 0) {
    const std::string row = key(end);
    return manager->locks()->lock(transaction->lock_owner(), {main->id(), row}, mode, LockWait{timeout_ms},
                                  nullptr, use);
  }
  void take(Transaction *transaction, std::string_view end, LockMode mode, LockUse use = LockUse::kRead) {
    ASSERT_TRUE(lock(transaction, end, mode, use).ok());
  }
  bool is_locked(std::string_view end) {
    return lock(manager->begin(nullptr).get(), end, kX).code() == Code::kLockTimeout;
  }
  bool refuses_insert(std::string_view end) {
    return manager->begin(nullptr)->insert(main, key(end), "", LockWait{0}).code() == Code::kLockTimeout;
  }

  TestDirectory directory;
  TestDatabase database{directory.path()};
  std::unique_ptr<Manager> manager;
  lsm::Family *main = database.shared_family();
};

class EachKeptLocksTest : public KeptLocksTest, public ::testing::WithParamInterface<KeptLocks> {};

INSTANTIATE_TEST_SUITE_P(Prepared, EachKeptLocksTest,
                         ::testing::Values(KeptLocks::kAll, KeptLocks::kExclusive, KeptLocks::kWritten));

TEST_P(EachKeptLocksTest, KeepsWhatGuardsItsWritesAndReleasesTheRest) {
  const bool all = GetParam() == KeptLocks::kAll, exclusive = GetParam() != KeptLocks::kWritten;
  auto writer = manager->begin(nullptr);
  take(writer.get(), "shared", kS);
  take(writer.get(), "read", kX);
  take(writer.get(), "duplicate", kX, LockUse::kClaim);
  take(writer.get(), "duplicate that was read", kX, LockUse::kClaim);
  take(writer.get(), "duplicate that was read", kX);
  take(writer.get(), "changed", kX);
  take(writer.get(), "new", kX, LockUse::kClaim);
  take(writer.get(), "undone", kX, LockUse::kClaim);
  take(writer.get(), "unique=", kX, LockUse::kClaim);
  EXPECT_TRUE(writer->lock_range(main, key("r"), key("s"), true).entry.empty());
  const size_t savepoint = writer->set_savepoint();
  ASSERT_TRUE(writer->insert(main, key("undone"), "", LockWait{0}).ok());
  ASSERT_TRUE(writer->rollback_to_savepoint(savepoint).ok());
  ASSERT_TRUE(writer->put(main, key("changed"), "").ok());
  ASSERT_TRUE(writer->insert(main, key("new"), "", LockWait{0}).ok());
  ASSERT_TRUE(writer->insert(main, key("unique=new"), "", LockWait{0}, key("unique=").size()).ok());
  ASSERT_TRUE(writer->prepare("x", true, false, GetParam()).ok());

  for (const char *written : {"changed", "new", "unique="}) EXPECT_TRUE(is_locked(written)) << written;
  for (const char *read : {"read", "duplicate that was read"}) EXPECT_EQ(is_locked(read), exclusive);
  for (const char *other : {"shared", "duplicate", "undone"}) EXPECT_EQ(is_locked(other), all) << other;
  EXPECT_EQ(refuses_insert("r1"), all);
  ASSERT_TRUE(writer->commit_prepared(true).ok());
  EXPECT_TRUE(manager->locks()->list().empty());
}

// The row locks of a large transaction have become row ranges. Those of the rows that it has written become
// row locks again, also if there are more of them than a transaction usually has.
TEST_P(EachKeptLocksTest, RowRangesGuardTheWrittenRows) {
  manager->locks()->set_row_locks_max(10, 2);
  auto reader = manager->begin(nullptr), writer = manager->begin(nullptr);
  for (int row = 100; row < 200; row += 2) {
    take(reader.get(), "s" + std::to_string(row), kS);
    take(writer.get(), "x" + std::to_string(row), kX);
    if (row % 4 == 0) {
      ASSERT_TRUE(writer->put(main, key("x" + std::to_string(row)), "").ok());
    }
  }
  ASSERT_TRUE(is_locked("x111")) << "a row range locks the keys between its rows";
  ASSERT_TRUE(reader->prepare("reader", true, false, GetParam()).ok());
  ASSERT_TRUE(writer->prepare("writer", true, false, GetParam()).ok());
  for (int row = 100; row < 200; row += 2) {
    const bool written = row % 4 == 0;
    EXPECT_EQ(is_locked("s" + std::to_string(row)), GetParam() == KeptLocks::kAll) << row;
    EXPECT_EQ(is_locked("x" + std::to_string(row)), written || GetParam() != KeptLocks::kWritten) << row;
  }
  EXPECT_EQ(is_locked("x111"), GetParam() != KeptLocks::kWritten);
  ASSERT_TRUE(reader->rollback_prepared().ok());
  ASSERT_TRUE(writer->rollback_prepared().ok());
  EXPECT_TRUE(manager->locks()->list().empty());
}

TEST_F(KeptLocksTest, WaitersGoOnAtPrepare) {
  auto writer = manager->begin(nullptr);
  take(writer.get(), "shared", kS);
  EXPECT_TRUE(writer->lock_range(main, key("r"), key("s"), true).entry.empty());
  const uint64_t before = manager->locks()->waits();
  const auto wait = [&](auto &&work) {
    return std::async(std::launch::async, [this, work] {
      auto other = manager->begin(nullptr);
      return work(other.get()).code();
    });
  };
  auto insert =
      wait([this](Transaction *other) { return other->insert(main, key("r1"), "", LockWait{60000}); });
  auto change = wait([this](Transaction *other) { return lock(other, "shared", kX, LockUse::kRead, 60000); });
  while (manager->locks()->waits() < before + 2) std::this_thread::yield();
  ASSERT_TRUE(writer->prepare("x", true, false, KeptLocks::kExclusive).ok());
  EXPECT_EQ(insert.get(), Code::kOk);
  EXPECT_EQ(change.get(), Code::kOk);
  ASSERT_TRUE(writer->rollback_prepared().ok());
}

}  // namespace
}  // namespace atoll::txn
