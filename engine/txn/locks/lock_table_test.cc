// Goal:   locks are granted, queued, upgraded and released, and deadlocks are broken, as lock_table.h says.
// Method: short sequences of steps of three transactions, a, b and c. A waiter runs on a thread of its own;
//         the next step begins when list() shows the wait, so no test depends on timing.

#include "txn/locks/lock_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "base/mutex.h"

namespace atoll::txn {
namespace {

constexpr auto kS = LockMode::kShared;
constexpr auto kX = LockMode::kExclusive;

class LockTableTest : public ::testing::Test {
 protected:
  ~LockTableTest() override {
    for (LockOwner *owner : {&a, &b, &c}) table.unlock_all(owner);
    EXPECT_TRUE(table.list().empty());
  }

  Code now(LockOwner *owner, std::string_view key, LockMode mode) {
    return table.lock(owner, {1, key}, mode, LockWait{0}, nullptr).code();
  }

  // Starts a lock() that must wait, and returns when it is queued.
  std::future<Code> wait(LockOwner *owner, const std::string &key, LockMode mode,
                         uint64_t timeout_ms = 60000) {
    const size_t before = waiters();
    auto result = std::async(std::launch::async, [=, this] {
      bool waited = false;
      const Status status = table.lock(owner, {1, key}, mode, LockWait{timeout_ms}, &waited);
      EXPECT_TRUE(waited);
      return status.code();
    });
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (waiters() == before) {
      if (std::chrono::steady_clock::now() > limit) {
        ADD_FAILURE() << "no wait for " << key << " began";
        break;
      }
      std::this_thread::yield();
    }
    return result;
  }

  size_t waiters() const {
    size_t count = 0;
    for (const LockInfo &lock : table.list()) count += lock.waiting;
    return count;
  }

  bool waits(std::future<Code> &result) {
    return result.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout;
  }

  LockTable table;
  LockOwner a{1, &user_a}, b{2, &user_b}, c{3, &user_c};
  int user_a = 0, user_b = 0, user_c = 0;
};

TEST_F(LockTableTest, CompatibleModes) {
  EXPECT_EQ(now(&a, "k", kS), Code::kOk);
  EXPECT_EQ(now(&b, "k", kS), Code::kOk);
  EXPECT_EQ(now(&c, "k", kX), Code::kLockTimeout);
  EXPECT_EQ(now(&c, "other", kX), Code::kOk);
  EXPECT_EQ(now(&a, "other", kS), Code::kLockTimeout);
  EXPECT_EQ(table.lock(&a, {2, "other"}, kX, LockWait{0}, nullptr).code(), Code::kOk) << "another family";
  EXPECT_TRUE(table.holds(&a, {1, "k"}, kS));
  EXPECT_FALSE(table.holds(&a, {1, "k"}, kX));
  EXPECT_TRUE(table.holds(&c, {1, "other"}, kS));
  EXPECT_FALSE(table.holds(&c, {1, "k"}, kS));
}

TEST_F(LockTableTest, HolderUpgradesWhenAlone) {
  EXPECT_EQ(now(&a, "k", kS), Code::kOk);
  EXPECT_EQ(now(&a, "k", kX), Code::kOk);
  EXPECT_EQ(now(&b, "k", kS), Code::kLockTimeout);
  EXPECT_EQ(a.locks_held(), 1u);
}

TEST_F(LockTableTest, QueueIsFirstComeFirstServed) {
  EXPECT_EQ(now(&a, "k", kS), Code::kOk);
  auto writer = wait(&b, "k", kX);
  EXPECT_EQ(now(&c, "k", kS), Code::kLockTimeout) << "a reader must not pass the waiting writer";
  auto reader = wait(&c, "k", kS);
  table.unlock_all(&a);
  EXPECT_EQ(writer.get(), Code::kOk);
  EXPECT_TRUE(waits(reader));
  table.unlock_all(&b);
  EXPECT_EQ(reader.get(), Code::kOk);
}

TEST_F(LockTableTest, UpgradeGoesBeforeWaiters) {
  EXPECT_EQ(now(&a, "k", kS), Code::kOk);
  EXPECT_EQ(now(&b, "k", kS), Code::kOk);
  auto outsider = wait(&c, "k", kX);
  auto upgrade = wait(&a, "k", kX);
  table.unlock_all(&b);
  EXPECT_EQ(upgrade.get(), Code::kOk);
  EXPECT_TRUE(waits(outsider));
  table.unlock_all(&a);
  EXPECT_EQ(outsider.get(), Code::kOk);
}

TEST_F(LockTableTest, TimeoutLeavesTheQueue) {
  EXPECT_EQ(now(&a, "k", kS), Code::kOk);
  auto writer = wait(&b, "k", kX, 1000);
  auto reader = wait(&c, "k", kS);
  EXPECT_EQ(writer.get(), Code::kLockTimeout);
  EXPECT_EQ(reader.get(), Code::kOk) << "the writer's timeout lets the reader in";
}

TEST_F(LockTableTest, KillEndsCurrentAndNextWait) {
  EXPECT_EQ(now(&a, "k", kX), Code::kOk);
  auto waiter = wait(&b, "k", kX);
  table.kill(&b);
  EXPECT_EQ(waiter.get(), Code::kInterrupted);
  EXPECT_EQ(table.lock(&b, {1, "k"}, kX, LockWait{60000}, nullptr).code(), Code::kInterrupted);
  EXPECT_EQ(now(&b, "free", kX), Code::kOk) << "what needs no wait is not interrupted";
  table.clear_kill(&b);
  EXPECT_EQ(table.lock(&b, {1, "k"}, kX, LockWait{30}, nullptr).code(), Code::kLockTimeout);
}

TEST_F(LockTableTest, RequesterIsVictimOnTie) {
  EXPECT_EQ(now(&a, "1", kX), Code::kOk);
  EXPECT_EQ(now(&b, "2", kX), Code::kOk);
  auto waiter = wait(&a, "2", kX);
  EXPECT_EQ(table.lock(&b, {1, "1"}, kX, LockWait{60000}, nullptr).code(), Code::kDeadlock);
  EXPECT_EQ(table.deadlocks(), 1u);
  table.unlock_all(&b);
  EXPECT_EQ(waiter.get(), Code::kOk);
}

TEST_F(LockTableTest, VictimHasFewestLocks) {
  EXPECT_EQ(now(&a, "1", kX), Code::kOk);
  EXPECT_EQ(now(&b, "2", kX), Code::kOk);
  EXPECT_EQ(now(&b, "3", kX), Code::kOk);
  auto victim = wait(&a, "2", kX);
  auto requester = std::async(std::launch::async, [&] {
    return table.lock(&b, {1, "1"}, kX, LockWait{60000}, nullptr).code();
  });
  EXPECT_EQ(victim.get(), Code::kDeadlock);
  table.unlock_all(&a);
  EXPECT_EQ(requester.get(), Code::kOk);
  const Deadlock deadlock = table.last_deadlock();
  ASSERT_EQ(deadlock.members.size(), 2u);
  for (const Deadlock::Member &member : deadlock.members) {
    const bool is_a = member.wait.transaction_id == 1;
    EXPECT_EQ(member.locks, is_a ? 1u : 2u);
    EXPECT_EQ(member.wait.key, is_a ? "2" : "1");
    EXPECT_EQ(member.wait.family_id, 1u);
    EXPECT_EQ(member.wait.mode, kX);
    EXPECT_EQ(member.wait.blocking_transaction_id, is_a ? 2u : 1u);
  }
  EXPECT_EQ(deadlock.victim_id, 1u);
}

TEST_F(LockTableTest, ADeadlockDescribesTheUsersOfItsTransactions) {
  int first = 1, second = 2;
  a.set_user(&first);
  b.set_user(&second);
  table.set_describe_user([](void *user) { return "user " + std::to_string(*static_cast<int *>(user)); });
  EXPECT_EQ(now(&a, "1", kX), Code::kOk);
  EXPECT_EQ(now(&b, "2", kX), Code::kOk);
  auto waiter = wait(&a, "2", kX);
  EXPECT_EQ(table.lock(&b, {1, "1"}, kX, LockWait{60000}, nullptr).code(), Code::kDeadlock);
  for (const Deadlock::Member &member : table.last_deadlock().members)
    EXPECT_EQ(member.user, "user " + std::to_string(member.wait.transaction_id));
  table.unlock_all(&b);
  EXPECT_EQ(waiter.get(), Code::kOk);
}

TEST_F(LockTableTest, WaitsOfTheMomentAreCountedAndTimed) {
  EXPECT_EQ(table.waiting_now().count, 0u);
  EXPECT_EQ(now(&a, "k", kX), Code::kOk);
  auto waiter = wait(&b, "k", kX);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(table.waiting_now().count, 1u);
  EXPECT_GE(table.waiting_now().longest_ms, 20u);
  table.unlock_all(&a);
  EXPECT_EQ(waiter.get(), Code::kOk);
  EXPECT_EQ(table.waiting_now().count, 0u);
  EXPECT_EQ(table.waiting_now().longest_ms, 0u);
}

TEST_F(LockTableTest, PreferredVictimGoesBeforeTheOneWithFewestLocks) {
  // In parallel replication, the later of two transactions must give way. Here b is the later one.
  table.set_victim_preference([&](void *user, void *) { return user == b.user() ? -1 : 1; });
  EXPECT_EQ(now(&a, "1", kX), Code::kOk);
  EXPECT_EQ(now(&b, "2", kX), Code::kOk);
  EXPECT_EQ(now(&b, "3", kX), Code::kOk);
  auto earlier = wait(&a, "2", kX);
  EXPECT_EQ(table.lock(&b, {1, "1"}, kX, LockWait{60000}, nullptr).code(), Code::kDeadlock);
  table.unlock_all(&b);
  EXPECT_EQ(earlier.get(), Code::kOk);
}

TEST_F(LockTableTest, TwoUpgradesDeadlock) {
  EXPECT_EQ(now(&a, "k", kS), Code::kOk);
  EXPECT_EQ(now(&b, "k", kS), Code::kOk);
  auto first = wait(&a, "k", kX);
  EXPECT_EQ(table.lock(&b, {1, "k"}, kX, LockWait{60000}, nullptr).code(), Code::kDeadlock);
  table.unlock_all(&b);
  EXPECT_EQ(first.get(), Code::kOk);
}

TEST_F(LockTableTest, CycleOverAQueuedRequest) {
  // c waits because b's request is before it in the queue; c conflicts with no holder. Then a waits for c,
  // which closes the cycle.
  EXPECT_EQ(now(&c, "other", kX), Code::kOk);
  EXPECT_EQ(now(&c, "more", kX), Code::kOk);
  EXPECT_EQ(now(&a, "k", kS), Code::kOk);
  EXPECT_EQ(now(&a, "spare", kS), Code::kOk);
  auto writer = wait(&b, "k", kX);
  auto reader = wait(&c, "k", kS);
  auto closing = std::async(std::launch::async, [&] {
    return table.lock(&a, {1, "other"}, kX, LockWait{60000}, nullptr).code();
  });
  EXPECT_EQ(writer.get(), Code::kDeadlock) << "b has no lock at all";
  EXPECT_EQ(reader.get(), Code::kOk);
  table.unlock_all(&c);
  EXPECT_EQ(closing.get(), Code::kOk);
}

TEST_F(LockTableTest, UnlockTakesBackOneLock) {
  EXPECT_EQ(now(&a, "k", kX), Code::kOk);
  EXPECT_EQ(now(&a, "k", kX), Code::kOk);
  table.unlock(&a, {1, "k"});
  EXPECT_TRUE(table.holds(&a, {1, "k"}, kX)) << "another part of the statement locked it too";
  table.unlock(&a, {1, "k"});
  EXPECT_FALSE(table.holds(&a, {1, "k"}, kS));
  EXPECT_EQ(a.locks_held(), 0u);
  EXPECT_EQ(now(&b, "k", kX), Code::kOk);
  table.unlock(&a, {1, "k"});
  EXPECT_TRUE(table.holds(&b, {1, "k"}, kX)) << "not the caller's lock";
}

TEST_F(LockTableTest, UnlockWakesWaiters) {
  EXPECT_EQ(now(&a, "k", kX), Code::kOk);
  auto waiter = wait(&b, "k", kX);
  table.unlock(&a, {1, "k"});
  EXPECT_EQ(waiter.get(), Code::kOk);
}

TEST_F(LockTableTest, MarkProtectsEarlierLocks) {
  EXPECT_EQ(now(&a, "old", kX), Code::kOk);
  EXPECT_EQ(table.mark(&a), 1u);
  EXPECT_EQ(now(&a, "new", kX), Code::kOk);
  table.unlock(&a, {1, "old"});
  table.unlock(&a, {1, "new"});
  EXPECT_TRUE(table.holds(&a, {1, "old"}, kX));
  EXPECT_FALSE(table.holds(&a, {1, "new"}, kX));
}

TEST_F(LockTableTest, LaggingUnlocksStayBounded) {
  // A scan keeps each row locked until it has locked the next one. compact_held() must keep the order of the
  // locks and the mark.
  EXPECT_EQ(now(&a, "kept", kX), Code::kOk);
  table.mark(&a);
  for (int i = 0; i < 10000; ++i) {
    EXPECT_EQ(now(&a, "r" + std::to_string(i), kX), Code::kOk);
    if (i > 0) table.unlock(&a, {1, "r" + std::to_string(i - 1)});
  }
  EXPECT_EQ(a.locks_held(), 2u);
  table.unlock(&a, {1, "kept"});
  EXPECT_TRUE(table.holds(&a, {1, "kept"}, kX));
  table.unlock(&a, {1, "r9999"});
  EXPECT_EQ(a.locks_held(), 1u);
}

TEST_F(LockTableTest, BeforeWaitNamesEachBlockerOnce) {
  atoll::Mutex mutex;
  std::vector<std::pair<LockOwner *, void *>> calls;
  table.set_before_wait([&](LockOwner *waiter, void *holder) {
    atoll::MutexLock guard(mutex);
    (void)table.list();  // this call would hang if an internal lock were held
    calls.emplace_back(waiter, holder);
  });
  EXPECT_EQ(now(&a, "k", kS), Code::kOk);
  EXPECT_EQ(now(&b, "k", kS), Code::kOk);
  auto waiter = wait(&c, "k", kX);
  const auto count = [&] {
    atoll::MutexLock guard(mutex);
    return calls.size();
  };
  while (count() < 2) std::this_thread::yield();
  EXPECT_TRUE(waits(waiter));
  table.unlock_all(&a);
  table.unlock_all(&b);
  EXPECT_EQ(waiter.get(), Code::kOk);
  ASSERT_EQ(calls.size(), 2u);
  for (const auto &[who, holder] : calls) EXPECT_EQ(who, &c);
  EXPECT_NE(calls[0].second, calls[1].second);
}

TEST_F(LockTableTest, HolderStaysUntilCallbacksAreOver) {
  std::promise<void> inside, go_on;
  auto may_go_on = go_on.get_future();
  table.set_before_wait([&](LockOwner *, void *) {
    inside.set_value();
    may_go_on.wait();
  });
  EXPECT_EQ(now(&a, "k", kX), Code::kOk);
  auto waiter = wait(&b, "k", kX);
  inside.get_future().wait();
  auto leaving = std::async(std::launch::async, [&] { table.unlock_all(&a); });
  EXPECT_EQ(leaving.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  go_on.set_value();
  leaving.wait();
  EXPECT_EQ(waiter.get(), Code::kOk);
}

TEST_F(LockTableTest, BlockerThatAppearsDuringTheWaitIsReported) {
  atoll::Mutex mutex;
  std::vector<void *> holders_of_c;
  table.set_before_wait([&](LockOwner *waiter, void *holder) {
    atoll::MutexLock guard(mutex);
    if (waiter == &c) holders_of_c.push_back(holder);
  });
  LockOwner d{4, nullptr};
  EXPECT_EQ(now(&a, "k", kS), Code::kOk);
  EXPECT_EQ(now(&d, "k", kS), Code::kOk);
  auto writer = wait(&b, "k", kX);
  auto reader = wait(&c, "k", kS);   // c waits for b only
  auto upgrade = wait(&a, "k", kX);  // a is now before c in the queue, so c waits for a, too
  const auto seen = [&] {
    atoll::MutexLock guard(mutex);
    return holders_of_c;
  };
  while (seen().size() < 2) std::this_thread::yield();
  EXPECT_EQ(seen(), (std::vector<void *>{&user_b, &user_a}));
  table.unlock_all(&d);
  EXPECT_EQ(upgrade.get(), Code::kOk);
  table.unlock_all(&a);
  EXPECT_EQ(writer.get(), Code::kOk);
  table.unlock_all(&b);
  EXPECT_EQ(reader.get(), Code::kOk);
}

TEST_F(LockTableTest, ListShowsWhoBlocksWhom) {
  EXPECT_EQ(now(&a, "k", kX), Code::kOk);
  auto waiter = wait(&b, "k", kS);
  bool found = false;
  for (const LockInfo &lock : table.list()) {
    if (!lock.waiting) continue;
    found = true;
    EXPECT_EQ(lock.transaction_id, 2u);
    EXPECT_EQ(lock.blocking_transaction_id, 1u);
    EXPECT_EQ(lock.key, "k");
  }
  EXPECT_TRUE(found);
  table.unlock_all(&a);
  EXPECT_EQ(waiter.get(), Code::kOk);
  EXPECT_GE(table.waits(), 1u);
}

}  // namespace
}  // namespace atoll::txn
