// Goal:   an owner with very many row locks holds few entries in the lock table, and every row that it locked
//         stays locked (LOCK-5).
// Method: one lock table with a low limit of row locks; short sequences of steps with waiters, readers and
//         keys that other owners hold. Random steps are in lock_stress_test.cc.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "txn/locks/lock_table.h"

namespace atoll::txn {
namespace {

constexpr uint32_t kFamily = 7;
constexpr auto kS = LockMode::kShared;
constexpr auto kX = LockMode::kExclusive;

std::string row(int number) { return "index-" + std::to_string(1000 + number); }

class RowRangeTest : public ::testing::Test {
 protected:
  ~RowRangeTest() override {
    for (LockOwner *owner : {&a, &b, &c}) table.unlock_all(owner);
    EXPECT_TRUE(table.list().empty());
  }

  Code lock(LockOwner *owner, int number, LockMode mode, uint64_t timeout_ms = 0) {
    return table.lock(owner, {kFamily, row(number)}, mode, LockWait{timeout_ms}, nullptr).code();
  }
  // Locks row `number` as a scan does that has come from the row beside it.
  Code scan(LockOwner *owner, int number, LockMode mode, bool forward = true, uint64_t timeout_ms = 0) {
    std::string lower = forward ? row(number - 1) + '\0' : row(number);
    std::string upper = forward ? row(number) + '\0' : row(number + 1);
    const std::string key = row(number);
    table.lock_range(
        owner, kFamily, &lower, &upper, [](std::string *, std::string *) {}, RowInRange{mode, key});
    return lock(owner, number, mode, timeout_ms);
  }
  // Starts a lock() on another thread, and returns when it waits.
  std::future<Code> waiting(LockOwner *owner, int number, LockMode mode) {
    const uint64_t before = table.waits();
    auto result = std::async(std::launch::async, [=, this] { return lock(owner, number, mode, 60000); });
    while (table.waits() == before) std::this_thread::yield();
    return result;
  }
  size_t structures(uint64_t transaction_id) {
    size_t count = 0;
    for (const LockInfo &info : table.list()) count += info.transaction_id == transaction_id ? 1 : 0;
    return count;
  }

  LockTable table;
  LockOwner a{1}, b{2}, c{3};
};

TEST_F(RowRangeTest, ManyRowLocksBecomeFewRangesAndLockTheSame) {
  table.set_row_locks_max(50, 4);
  for (int i = 0; i < 200; i += 2) ASSERT_EQ(lock(&a, i, kS), Code::kOk);
  EXPECT_EQ(a.locks_held(), 100u) << "the count is of what was locked";
  EXPECT_LT(structures(1), 60u);
  EXPECT_EQ(lock(&a, 4, kS), Code::kOk);
  EXPECT_EQ(a.locks_held(), 100u);
  EXPECT_EQ(lock(&b, 4, kS), Code::kOk) << "readers share";
  EXPECT_EQ(lock(&b, 4, kX), Code::kLockTimeout);
  EXPECT_EQ(lock(&b, 6, kX), Code::kLockTimeout);
  EXPECT_EQ(lock(&b, 500, kX), Code::kOk) << "behind the ranges";
  EXPECT_EQ(lock(&a, 4, kX), Code::kLockTimeout) << "b reads it";
  EXPECT_EQ(lock(&a, 6, kX), Code::kOk) << "an upgrade of one row";
  EXPECT_EQ(lock(&b, 6, kS), Code::kLockTimeout);
  auto writer = waiting(&c, 8, kX);
  table.unlock_all(&a);
  EXPECT_EQ(writer.get(), Code::kOk);
}

TEST_F(RowRangeTest, SuccessiveKeysBecomeOneRangeThatHasNoOtherInIt) {
  table.set_row_locks_max(10);
  ASSERT_EQ(lock(&b, 20, kX), Code::kOk);
  for (int i = 0; i < 100; ++i) {
    if (i != 20 && i != 30) {
      ASSERT_EQ(lock(&a, i, kX), Code::kOk);
    }
  }
  size_t ranges = 0;
  for (const LockInfo &info : table.list()) ranges += info.key_end.empty() ? 0 : 1;
  EXPECT_LE(ranges, 13u) << "each ten of decimal digits is one range";
  EXPECT_EQ(lock(&c, 30, kX), Code::kOk) << "nobody locked it";
  EXPECT_EQ(lock(&c, 31, kS), Code::kLockTimeout);
}

TEST_F(RowRangeTest, AScanLocksItsRowsWithItsRanges) {
  for (const bool forward : {true, false}) {
    for (int i = 1; i < 50; ++i) ASSERT_EQ(scan(&a, forward ? i : 50 - i, kX, forward), Code::kOk);
    EXPECT_LE(structures(1), 4u) << "row locks of the first rows, a range and a row range";
    EXPECT_GE(a.locks_held(), 45u);
    EXPECT_EQ(lock(&b, 20, kS), Code::kLockTimeout);
    EXPECT_EQ(lock(&b, 51, kX), Code::kOk) << "behind the range";
    auto reader = waiting(&c, 20, kS);
    table.unlock_all(&a);
    EXPECT_EQ(reader.get(), Code::kOk);
    for (LockOwner *owner : {&b, &c}) table.unlock_all(owner);
  }
}

TEST_F(RowRangeTest, AScanThatWaitsForAReaderLetsItWriteFirst) {
  ASSERT_EQ(lock(&b, 5, kS), Code::kOk);
  for (int i = 1; i < 5; ++i) ASSERT_EQ(scan(&a, i, kX), Code::kOk);
  auto scanning = std::async(std::launch::async, [this] { return scan(&a, 5, kX, true, 60000); });
  while (table.waits() == 0) std::this_thread::yield();
  EXPECT_EQ(lock(&b, 5, kX), Code::kOk) << "an upgrade goes first";
  table.unlock_all(&b);
  EXPECT_EQ(scanning.get(), Code::kOk);
}

TEST_F(RowRangeTest, AScanThatFailsToGetARowLeavesItToOthers) {
  ASSERT_EQ(lock(&b, 5, kX), Code::kOk);
  for (int i = 1; i < 5; ++i) ASSERT_EQ(scan(&a, i, kX), Code::kOk);
  EXPECT_EQ(scan(&a, 5, kX), Code::kLockTimeout);
  table.unlock_all(&b);
  EXPECT_EQ(lock(&c, 5, kX), Code::kOk);
  EXPECT_EQ(lock(&c, 3, kX), Code::kLockTimeout);
}

TEST_F(RowRangeTest, ARowWithWaitersKeepsItsLock) {
  table.set_row_locks_max(10);
  ASSERT_EQ(lock(&a, 0, kX), Code::kOk);
  auto writer = waiting(&b, 0, kX);
  for (int i = 1; i < 20; ++i) ASSERT_EQ(lock(&a, i, kX), Code::kOk);
  auto late = waiting(&c, 3, kX);
  table.unlock_all(&a);
  EXPECT_EQ(writer.get(), Code::kOk);
  EXPECT_EQ(late.get(), Code::kOk);
}

// A random test found this error in an earlier version: a writer checked the row ranges. Then one reader
// exchanged its row lock for a row range, and the writer entered the queue of another reader's row lock. When
// that other reader released its lock, the writer got the row, although the first reader's row range still
// locked the row.
TEST_F(RowRangeTest, AWriterBehindAReaderWaitsForTheRangeOfAnotherReader) {
  table.set_row_locks_max(2);
  ASSERT_EQ(lock(&b, 1, kS), Code::kOk);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(lock(&a, i, kS), Code::kOk);
  auto writer = waiting(&c, 1, kX);
  table.unlock_all(&b);
  EXPECT_EQ(lock(&b, 1, kS), Code::kOk) << "the writer has not been let in";
  table.unlock_all(&b);
  table.unlock_all(&a);
  EXPECT_EQ(writer.get(), Code::kOk);
}

TEST_F(RowRangeTest, ARangeOverAKeyOfAnotherOwnerWaitsForIt) {
  table.set_row_locks_max(2, 1);
  ASSERT_EQ(lock(&b, 2, kX), Code::kOk);
  for (const int i : {0, 1, 3, 4}) ASSERT_EQ(lock(&a, i, kX), Code::kOk);
  ASSERT_EQ(lock(&a, 2, kX), Code::kLockTimeout) << "the range is from 0 to 4, yet 2 is not ours";
  auto late = waiting(&a, 2, kX);
  table.unlock_all(&b);
  EXPECT_EQ(late.get(), Code::kOk);
  EXPECT_EQ(lock(&b, 2, kS), Code::kLockTimeout);
}

TEST_F(RowRangeTest, DeadlocksOverRangesAreFoundAndTheBigOwnerSurvives) {
  table.set_row_locks_max(2);
  for (int i = 0; i < 6; ++i) ASSERT_EQ(lock(&a, i, kX), Code::kOk);
  ASSERT_EQ(lock(&b, 100, kX), Code::kOk);
  auto big = waiting(&a, 100, kX);
  EXPECT_EQ(lock(&b, 3, kX, 60000), Code::kDeadlock);
  table.unlock_all(&b);
  EXPECT_EQ(big.get(), Code::kOk);
}

TEST_F(RowRangeTest, LocksTakenAfterAnExchangeCanBeGivenBack) {
  table.set_row_locks_max(4);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(lock(&a, i, kX), Code::kOk);
  table.mark(&a);
  for (int i = 10; i < 20; ++i) ASSERT_EQ(lock(&a, i, kX), Code::kOk);
  ASSERT_EQ(lock(&a, 50, kX), Code::kOk);
  table.unlock(&a, {kFamily, row(50)});
  EXPECT_EQ(lock(&b, 50, kX), Code::kOk);
  table.unlock(&a, {kFamily, row(12)});
  EXPECT_EQ(lock(&b, 12, kX), Code::kLockTimeout) << "exchanged: it stays until the end";
}

TEST_F(RowRangeTest, TwoRecoveredOwnersMayReachOverEachOther) {
  table.set_row_locks_max(3, 1);
  for (int i = 0; i < 20; ++i) {
    LockOwner *owner = i % 2 == 0 ? &a : &b;
    ASSERT_TRUE(table.lock_recovered(owner, {kFamily, row(i)}).ok());
  }
  EXPECT_EQ(lock(&c, 7, kX), Code::kLockTimeout);
  table.unlock_all(&b);
  table.unlock_all(&a);
  EXPECT_EQ(lock(&c, 7, kX), Code::kOk);
}

}  // namespace
}  // namespace atoll::txn
