// Goal:   inserts wait for the ranges of other owners as lock_table.h promises (LOCK-2 to LOCK-4).
// Method: short sequences of steps of three owners, a, b and c. A waiter runs on a thread of its own; the
//         next step begins when list() shows the wait, so no test depends on timing.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "txn/locks/lock_table.h"

#include "base/mutex.h"

namespace atoll::txn {
namespace {

constexpr uint32_t kFamily = 1;
const std::string kIndex(kIndexStartBytes, 'i');
const std::string kOtherIndex(kIndexStartBytes, 'j');

class RangeLockTest : public ::testing::Test {
 protected:
  ~RangeLockTest() override {
    for (LockOwner *owner : {&a, &b, &c}) table.unlock_all(owner);
    EXPECT_TRUE(table.list().empty());
    EXPECT_FALSE(table.has_ranges({kFamily, kIndex}));
  }

  void range(LockOwner *owner, const std::string &from, const std::string &to) {
    std::string lower = kIndex + from, upper = kIndex + to;
    table.lock_range(owner, kFamily, &lower, &upper, [](std::string *, std::string *) {});
  }

  Code insert(LockOwner *owner, const std::string &key, uint64_t timeout_ms = 0) {
    const std::string full = kIndex + key;
    return table.lock_insert(owner, {kFamily, full}, LockWait{timeout_ms}, [] { return Status::Ok(); })
        .code();
  }

  template <typename Call>
  std::future<Code> waiting(const Call &call) {
    const size_t before = waiters();
    auto result = std::async(std::launch::async, call);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (waiters() == before && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    EXPECT_EQ(waiters(), before + 1) << "no wait began";
    return result;
  }
  std::future<Code> waiting_insert(LockOwner *owner, const std::string &key) {
    return waiting([=, this] { return insert(owner, key, 60000); });
  }

  size_t waiters() const {
    size_t count = 0;
    for (const LockInfo &lock : table.list()) count += lock.waiting;
    return count;
  }

  LockTable table;
  LockOwner a{1, &user_a}, b{2, &user_b}, c{3, &user_c};
  int user_a = 0, user_b = 0, user_c = 0;
};

TEST_F(RangeLockTest, OnlyOthersInsertsIntoTheRangeAreStopped) {
  range(&a, "c", "f");
  EXPECT_TRUE(table.has_ranges({kFamily, kIndex}));
  EXPECT_EQ(insert(&b, "b"), Code::kOk);
  EXPECT_EQ(insert(&b, "c"), Code::kLockTimeout);
  EXPECT_EQ(insert(&b, "ezz"), Code::kLockTimeout);
  EXPECT_EQ(insert(&b, "f"), Code::kOk) << "the upper bound is not in the range";
  EXPECT_EQ(insert(&a, "d"), Code::kOk) << "own range";
  const std::string other = kOtherIndex + "d", same = kIndex + "d";
  const auto write = [] { return Status::Ok(); };
  EXPECT_TRUE(table.lock_insert(&b, {kFamily, other}, LockWait{0}, write).ok()) << "another index";
  EXPECT_TRUE(table.lock_insert(&b, {kFamily + 1, same}, LockWait{0}, write).ok()) << "another family";
}

TEST_F(RangeLockTest, RangesDoNotConflictAndAnInsertWaitsForAll) {
  range(&a, "c", "f");
  range(&b, "d", "h");
  auto insertion = waiting_insert(&c, "e");
  table.unlock_all(&a);
  EXPECT_EQ(insertion.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  table.unlock_all(&b);
  EXPECT_EQ(insertion.get(), Code::kOk);
}

TEST_F(RangeLockTest, RowLocksDoNotMeetRanges) {
  range(&a, "c", "f");
  const std::string row = kIndex + "d";
  EXPECT_TRUE(table.lock(&b, {kFamily, row}, LockMode::kExclusive, LockWait{0}, nullptr).ok());
}

TEST_F(RangeLockTest, NarrowDecidesWhatIsLocked) {
  std::string lower = kIndex + "c", upper = kIndex + "k";
  table.lock_range(&a, kFamily, &lower, &upper,
                   [](std::string *, std::string *high) { *high = kIndex + "e"; });
  EXPECT_EQ(insert(&b, "d"), Code::kLockTimeout);
  EXPECT_EQ(insert(&b, "e"), Code::kOk);
  lower = kIndex + "x", upper = kIndex + "z";
  table.lock_range(&b, kFamily, &lower, &upper, [](std::string *low, std::string *high) { *high = *low; });
  EXPECT_EQ(insert(&a, "y"), Code::kOk) << "nothing was left of the range";
}

TEST_F(RangeLockTest, TwoRangesTwoInsertsAreADeadlock) {
  range(&a, "c", "f");
  range(&b, "d", "g");
  auto first = waiting_insert(&a, "e");  // a waits for b
  EXPECT_EQ(insert(&b, "e", 60000), Code::kDeadlock) << "the request that closes the cycle";
  EXPECT_EQ(table.deadlocks(), 1u);
  const Deadlock deadlock = table.last_deadlock();
  ASSERT_EQ(deadlock.members.size(), 2u);
  EXPECT_EQ(deadlock.members[0].wait.kind, LockKind::kInsert);
  table.unlock_all(&b);
  EXPECT_EQ(first.get(), Code::kOk);
}

TEST_F(RangeLockTest, ACycleOverARowAndARangeIsBroken) {
  const std::string row = kIndex + "r";
  ASSERT_TRUE(table.lock(&b, {kFamily, row}, LockMode::kExclusive, LockWait{0}, nullptr).ok());
  ASSERT_TRUE(table.lock(&b, {kFamily, kOtherIndex}, LockMode::kExclusive, LockWait{0}, nullptr).ok());
  range(&a, "c", "f");
  auto insertion = waiting_insert(&b, "d");
  bool waited = false;
  EXPECT_EQ(table.lock(&a, {kFamily, row}, LockMode::kShared, LockWait{60000}, &waited).code(),
            Code::kDeadlock);
  table.unlock_all(&a);
  EXPECT_EQ(insertion.get(), Code::kOk);
}

TEST_F(RangeLockTest, ARangeGrantedDuringTheWaitCountsToo) {
  const std::string row = kIndex + "r";
  ASSERT_TRUE(table.lock(&c, {kFamily, row}, LockMode::kExclusive, LockWait{0}, nullptr).ok());
  range(&a, "c", "f");
  auto insertion = waiting_insert(&c, "d");
  range(&b, "c", "f");  // from here on, c waits for b too
  bool waited = false;
  EXPECT_EQ(table.lock(&b, {kFamily, row}, LockMode::kShared, LockWait{60000}, &waited).code(),
            Code::kDeadlock);
  table.unlock_all(&b);
  table.unlock_all(&a);
  EXPECT_EQ(insertion.get(), Code::kOk);
}

TEST_F(RangeLockTest, TimeoutAndKillLeaveTheQueue) {
  range(&a, "c", "f");
  EXPECT_EQ(insert(&b, "d", 20), Code::kLockTimeout);
  EXPECT_EQ(waiters(), 0u);
  auto insertion = waiting_insert(&b, "d");
  table.kill(&b);
  EXPECT_EQ(insertion.get(), Code::kInterrupted);
  EXPECT_EQ(waiters(), 0u);
}

TEST_F(RangeLockTest, EveryHolderIsToldBeforeTheWait) {
  Mutex mutex;
  std::vector<void *> told;
  table.set_before_wait([&](LockOwner *waiter, void *holder) {
    EXPECT_EQ(waiter, &c);
    MutexLock guard(mutex);
    told.push_back(holder);
  });
  const auto count = [&] {
    MutexLock guard(mutex);
    return told.size();
  };
  range(&a, "c", "f");
  auto insertion = waiting_insert(&c, "d");
  while (count() < 1) std::this_thread::yield();
  range(&b, "c", "f");
  while (count() < 2) std::this_thread::yield();
  EXPECT_EQ(told, (std::vector<void *>{&user_a, &user_b}));
  table.unlock_all(&a);
  table.unlock_all(&b);
  EXPECT_EQ(insertion.get(), Code::kOk);
}

TEST_F(RangeLockTest, RangesAndWaitsAreListed) {
  range(&a, "c", "f");
  auto insertion = waiting_insert(&b, "d");
  std::vector<LockInfo> list = table.list();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].kind, LockKind::kRange);
  EXPECT_EQ(list[0].transaction_id, 1u);
  EXPECT_EQ(list[0].key, kIndex + "c");
  EXPECT_EQ(list[0].key_end, kIndex + "f");
  EXPECT_EQ(list[1].kind, LockKind::kInsert);
  EXPECT_TRUE(list[1].waiting);
  EXPECT_EQ(list[1].blocking_transaction_id, 1u);
  table.unlock_all(&a);
  EXPECT_EQ(insertion.get(), Code::kOk);
}

}  // namespace
}  // namespace atoll::txn
