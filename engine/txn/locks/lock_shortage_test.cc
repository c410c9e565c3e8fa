// Goal:   a lock call that gets no memory fails and leaves nothing in the lock table, so no transaction later
//         waits for a lock that nobody holds. Releasing locks needs no memory at all.
// Method: this program's operator new fails on one thread, at the thread's n-th request. A scene is a
//         function that locks some keys. Each scene runs with n = 1, 2, ... until no request fails. After
//         each run another transaction takes every lock of the scene.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/border/border.h"
#include "base/failing_new.h"
#include "txn/locks/lock_table.h"

namespace atoll::txn {
namespace {

constexpr uint32_t kFamily = 1;
constexpr int64_t kRequestsMax = 1000;  // more requests for memory than any scene makes
const std::string kIndex(kIndexStartBytes, 'i');

class Table {
 public:
  Table() {
    table_.set_before_wait([](LockOwner *, void *) {});
    table_.set_describe_user(
        [](void *) { return std::string("a user whose name is too long to stand in a string"); });
    table_.set_row_locks_max(3);
  }
  LockTable *operator->() { return &table_; }

  Code lock(LockOwner *owner, const std::string &key, LockMode mode, uint64_t timeout_ms = 0) {
    return table_.lock(owner, {kFamily, key}, mode, LockWait{timeout_ms}, nullptr).code();
  }
  Code insert(LockOwner *owner, const std::string &key, uint64_t timeout_ms = 0) {
    return table_.lock_insert(owner, {kFamily, key}, LockWait{timeout_ms}, [] { return Status::Ok(); })
        .code();
  }
  void range(LockOwner *owner, std::string lower, std::string upper) {
    table_.lock_range(owner, kFamily, &lower, &upper, [](std::string *, std::string *) {});
  }
  void await_waiters(uint64_t count) {
    while (table_.waiting_now().count < count) std::this_thread::yield();
  }

 private:
  LockTable table_;
};

// Runs `scene` while the first request for memory fails, then while the second one fails, and so on until
// none fails. Each run has a new table and a new owner. While it releases the owner's locks, every request
// for memory fails.
void run_with_each_failure(const std::vector<std::string> &keys,
                           const std::function<void(Table &table, LockOwner *owner)> &scene) {
  for (int64_t number = 1; number < kRequestsMax; ++number) {
    SCOPED_TRACE("request " + std::to_string(number));
    Table table;
    int user = 0;
    bool has_failed = false;
    {
      LockOwner owner(1, &user);
      failing_new::request = number;
      guarded([&] { scene(table, &owner); }, [&](const Status &) {});
      has_failed = failing_new::request == 0;
      failing_new::request = -1;
      table->unlock_all(&owner);
      failing_new::request = 0;
    }
    EXPECT_TRUE(table->list().empty());
    EXPECT_FALSE(table->has_ranges({kFamily, kIndex}));
    EXPECT_EQ(table->waiting_now().count, 0u);
    LockOwner other(2, &user);
    for (const std::string &key : keys) {
      EXPECT_EQ(table.insert(&other, key), Code::kOk) << key;
      EXPECT_EQ(table.lock(&other, key, LockMode::kExclusive), Code::kOk) << key;
    }
    table->unlock_all(&other);
    if (!has_failed) return;
  }
  FAIL() << "every request failed";
}

std::vector<std::string> some_keys() {
  std::vector<std::string> keys;
  for (const char *key : {"a", "b", "c", "d", "e", "f", "g"}) keys.push_back(kIndex + key);
  return keys;
}

TEST(LockShortage, RangesAndManyRowLocks) {
  const std::vector<std::string> keys = some_keys();
  run_with_each_failure(keys, [&](Table &table, LockOwner *owner) {
    table.range(owner, keys[1], keys[3]);
    table.range(owner, keys[4], keys[6]);
    for (const std::string &key : keys) (void)table.lock(owner, key, LockMode::kExclusive);
    table.range(owner, "another" + keys[0], "another" + keys[1]);
  });
}

// Other transactions hold the locks that `owner` asks for, so `owner` waits.
TEST(LockShortage, Waits) {
  const std::vector<std::string> keys = some_keys();
  for (const bool is_insert : {false, true}) {
    int user = 0;
    run_with_each_failure(keys, [&](Table &table, LockOwner *owner) {
      const int64_t left = std::exchange(failing_new::request, 0);
      LockOwner holder(3, &user), second(4, &user);
      EXPECT_EQ(table.lock(&holder, keys[0], LockMode::kShared), Code::kOk);
      EXPECT_EQ(table.lock(&second, keys[0], LockMode::kShared), Code::kOk);
      table.range(&holder, keys[0], keys[2]);
      failing_new::request = left;
      const Status status = guarded([&]() -> Status {
        const Code code =
            is_insert ? table.insert(owner, keys[0], 5) : table.lock(owner, keys[0], LockMode::kExclusive, 5);
        return Status(code, "");
      });
      EXPECT_TRUE(status.code() == Code::kLockTimeout || status.code() == Code::kNoMemory)
          << status.message();
      const int64_t after = std::exchange(failing_new::request, -1);
      table->unlock_all(&holder);
      table->unlock_all(&second);
      failing_new::request = after;
    });
  }
}

TEST(LockShortage, ADeadlockThatCannotBeDescribedEndsOneWait) {
  const std::vector<std::string> keys = some_keys();
  int user = 0;
  run_with_each_failure(keys, [&](Table &table, LockOwner *owner) {
    const int64_t left = std::exchange(failing_new::request, 0);
    LockOwner other(3, &user);
    EXPECT_EQ(table.lock(&other, keys[0], LockMode::kExclusive), Code::kOk);
    EXPECT_EQ(table.lock(owner, keys[1], LockMode::kExclusive), Code::kOk);
    auto waiting = std::async(std::launch::async, [&] {
      const Code code = table.lock(&other, keys[1], LockMode::kExclusive, 60000);
      table->unlock_all(&other);
      return code;
    });
    table.await_waiters(1);
    failing_new::request = left;
    const Status status = guarded(
        [&]() -> Status { return Status(table.lock(owner, keys[0], LockMode::kExclusive, 60000), ""); });
    const int64_t after = std::exchange(failing_new::request, -1);
    table->unlock_all(owner);
    failing_new::request = 0;
    const Code others = waiting.get();
    failing_new::request = after;
    // Exactly one of the two transactions gets its lock.
    EXPECT_NE(status.code() == Code::kOk, others == Code::kOk) << status.message();
  });
}

TEST(LockShortage, WhoReleasesALockGrantsItToAllWithoutMemory) {
  Table table;
  int user = 0;
  const std::string key = kIndex + "k";
  LockOwner holder(1, &user);
  std::vector<std::unique_ptr<LockOwner>> readers;
  std::vector<std::future<Code>> waits;
  EXPECT_EQ(table.lock(&holder, key, LockMode::kExclusive), Code::kOk);
  for (uint64_t id = 2; id < 8; ++id) {
    LockOwner *reader = readers.emplace_back(std::make_unique<LockOwner>(id, &user)).get();
    waits.push_back(std::async(std::launch::async, [&table, &key, reader] {
      return table.lock(reader, key, LockMode::kShared, 60000);
    }));
    table.await_waiters(id - 1);
  }
  failing_new::request = -1;
  table->unlock_all(&holder);
  failing_new::request = 0;
  for (std::future<Code> &wait : waits) EXPECT_EQ(wait.get(), Code::kOk);
  for (const auto &reader : readers) table->unlock_all(reader.get());
  EXPECT_TRUE(table->list().empty());
}

}  // namespace
}  // namespace atoll::txn
