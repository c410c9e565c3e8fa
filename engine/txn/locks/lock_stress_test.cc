// Goal:   LOCK-1 to LOCK-3 and LOCK-5 hold under concurrency: two holders of a lock never conflict, no
//         wake-up is lost, every deadlock is broken, no deadlock is reported where none is possible, and no
//         lock owner is used after its end.
// Method: threads request and release random locks. The test checks each grant against its own list of all
//         holders. The timeout of waits is so long that a wait reaches it only when a wake-up or a deadlock
//         was missed. Run under ThreadSanitizer and AddressSanitizer too. Seeds are printed; ATOLL_STRESS_MS
//         sets how many milliseconds each test runs.

#include <gtest/gtest.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "txn/locks/lock_table.h"

#include "base/mutex.h"

namespace atoll::txn {
namespace {

constexpr uint64_t kForeverMs = 60000;  // longer than any wait for a lock that is released in time

std::chrono::milliseconds stress_time() {
  int milliseconds = 1500;
  if (const char *set = std::getenv("ATOLL_STRESS_MS"); set != nullptr) {
    std::from_chars(set, set + std::strlen(set), milliseconds);
  }
  return std::chrono::milliseconds(milliseconds);
}

// The test's own list of which owner holds which lock. A holder is entered after its grant and removed before
// its release. So holders that conflict in this list conflict in the lock table, too.
class Model {
 public:
  explicit Model(int keys) : keys_(static_cast<size_t>(keys)) {}

  void granted(int key, uint64_t id, LockMode mode) {
    Key &k = keys_[static_cast<size_t>(key)];
    MutexLock guard(k.mutex);
    ASSERT_TRUE(k.writer == 0 || k.writer == id) << "key " << key << " is held by writer " << k.writer;
    if (mode == LockMode::kExclusive) {
      k.readers.erase(id);
      ASSERT_TRUE(k.readers.empty()) << "key " << key << " has readers";
      k.writer = id;
    } else if (k.writer != id) {
      k.readers.insert(id);
    }
  }

  void released(int key, uint64_t id) {
    Key &k = keys_[static_cast<size_t>(key)];
    MutexLock guard(k.mutex);
    if (k.writer == id) k.writer = 0;
    k.readers.erase(id);
  }

 private:
  struct Key {
    Mutex mutex;
    uint64_t writer = 0;
    std::set<uint64_t> readers;
  };
  std::vector<Key> keys_;
};

struct Settings {
  int threads = 6;
  int keys = 6;
  uint64_t locks = 6;          // most locks that a transaction takes
  uint64_t readers_of = 2;     // one of this many locks is exclusive
  bool ordered = false;        // true: exclusive locks in ascending order, so no deadlock is possible
  bool kills = false;          // true: a thread kills owners at random
  bool short_waits = false;    // true: the timeout of each wait is 0 to 2 ms
  bool scans = false;          // true: most rows are locked by scans, whose ranges include the rows
  size_t row_locks_max = 0;    // with more row locks, an owner exchanges them for row ranges; 0: never
  size_t row_ranges_max = 64;  // with more row ranges of an owner in an index, KeyRanges joins neighbours
};

std::string name_of(int key) { return "index-" + std::string(1, static_cast<char>('A' + key)); }

// The user pointer of a worker's transaction points to a User. The before-wait callback gets it, so the User
// must live as long as the callback runs.
struct User {
  std::atomic<uint64_t> alive{0x600D};
  ~User() { alive = 0xDEAD; }
};

class Stress {
 public:
  explicit Stress(const Settings &settings)
      : settings_(settings), model_(settings.keys), slots_(static_cast<size_t>(settings.threads)) {
    table_.set_row_locks_max(settings.row_locks_max, settings.row_ranges_max);
    table_.set_before_wait([this](LockOwner *waiter, void *holder) {
      EXPECT_NE(waiter->user(), holder);
      EXPECT_EQ(static_cast<User *>(holder)->alive, 0x600Du);
      ++callbacks_;
    });
  }

  void run(uint64_t seed) {
    std::vector<std::thread> threads;
    for (int i = 0; i < settings_.threads; ++i) {
      threads.emplace_back([this, seed, i] { work(seed + static_cast<uint64_t>(i), i); });
    }
    if (settings_.kills) threads.emplace_back([this, seed] { kill_some(seed ^ 0x5eed); });
    threads.emplace_back([this] { look(); });
    for (std::thread &thread : threads) thread.join();
    EXPECT_TRUE(table_.list().empty()) << "something is still locked";
    std::printf("  %llu transactions, %llu waits, %llu deadlocks, %llu callbacks, %llu interrupted\n",
                static_cast<unsigned long long>(transactions_.load()),
                static_cast<unsigned long long>(table_.waits()),
                static_cast<unsigned long long>(table_.deadlocks()),
                static_cast<unsigned long long>(callbacks_.load()),
                static_cast<unsigned long long>(interrupted_.load()));
  }

  uint64_t deadlocks() const { return table_.deadlocks(); }

 private:
  struct Slot {
    Mutex mutex;
    LockOwner *owner = nullptr;
  };

  bool over() const { return std::chrono::steady_clock::now() > end_ || ::testing::Test::HasFatalFailure(); }

  void work(uint64_t seed, int number) {
    std::mt19937_64 random(seed);
    Slot &slot = slots_[static_cast<size_t>(number)];
    while (!over()) {
      User user;
      LockOwner owner(next_id_.fetch_add(1), &user);
      {
        MutexLock guard(slot.mutex);
        slot.owner = &owner;
      }
      transaction(&owner, random);
      {
        MutexLock guard(slot.mutex);
        slot.owner = nullptr;
      }
      ++transactions_;
    }
  }

  void transaction(LockOwner *owner, std::mt19937_64 &random) {
    std::map<int, int> held;  // key -> number of lock() calls
    int key = -1;
    for (uint64_t i = 1 + random() % settings_.locks; i > 0; --i) {
      if (settings_.ordered)
        key += 1 + static_cast<int>(random() % 3);
      else
        key = static_cast<int>(random() % static_cast<uint64_t>(settings_.keys));
      if (key >= settings_.keys) break;
      if (!take(owner, key, random, &held)) break;
      if (random() % 4 == 0) give_back(owner, key, &held);
      if (random() % 8 == 0) std::this_thread::yield();
    }
    for (const auto &[k, count] : held) model_.released(k, owner->transaction_id());
    if (settings_.row_locks_max == 0 && !settings_.scans) {
      EXPECT_EQ(owner->locks_held(), held.size());
    }
    table_.unlock_all(owner);
  }

  bool take(LockOwner *owner, int key, std::mt19937_64 &random, std::map<int, int> *held) {
    const bool exclusive = settings_.ordered || random() % settings_.readers_of == 0;
    const LockMode mode = exclusive ? LockMode::kExclusive : LockMode::kShared;
    uint64_t timeout_ms = kForeverMs;
    if (settings_.short_waits) timeout_ms = random() % 3;
    const std::string name = name_of(key);
    if (settings_.scans && random() % 4 != 0) {
      std::string lower = name, upper = name + '\0';
      table_.lock_range(
          owner, 7, &lower, &upper, [](std::string *, std::string *) {}, RowInRange{mode, name});
    }
    const Status status = table_.lock(owner, {7, name}, mode, {timeout_ms}, nullptr);
    switch (status.code()) {
      case Code::kOk:
        model_.granted(key, owner->transaction_id(), mode);
        ++(*held)[key];
        return true;
      case Code::kLockTimeout:
        EXPECT_NE(timeout_ms, kForeverMs) << "a wake-up or a deadlock was missed";
        return true;
      case Code::kInterrupted:
        EXPECT_TRUE(settings_.kills);
        ++interrupted_;
        return false;
      default:
        EXPECT_EQ(status.code(), Code::kDeadlock);
        return false;
    }
  }

  void give_back(LockOwner *owner, int key, std::map<int, int> *held) {
    const auto it = held->find(key);
    if (it == held->end()) return;
    if (--it->second == 0) {
      model_.released(key, owner->transaction_id());
      held->erase(it);
    }
    const std::string name = name_of(key);
    table_.unlock(owner, {7, name});
  }

  void kill_some(uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!over()) {
      Slot &slot = slots_[random() % slots_.size()];
      {
        MutexLock guard(slot.mutex);
        if (slot.owner != nullptr) table_.kill(slot.owner);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    }
  }

  void look() {
    while (!over()) {
      (void)table_.list();
      (void)table_.last_deadlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  }

  const Settings settings_;
  LockTable table_;
  Model model_;
  std::vector<Slot> slots_;
  const std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + stress_time();
  std::atomic<uint64_t> next_id_{1}, transactions_{0}, callbacks_{0}, interrupted_{0};
};

uint64_t new_seed() {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

TEST(LockStressTest, FewKeysManyDeadlocks) {
  Stress stress(Settings{});
  stress.run(new_seed());
  EXPECT_GT(stress.deadlocks(), 0u);
}

TEST(LockStressTest, ManyThreadsOnTwoKeys) {
  Settings settings;
  settings.threads = 24;
  settings.keys = 2;
  Stress(settings).run(new_seed());
}

TEST(LockStressTest, OrderedLockingNeverDeadlocks) {
  Settings settings;
  settings.threads = 8;
  settings.keys = 10;
  settings.ordered = true;
  Stress stress(settings);
  stress.run(new_seed());
  EXPECT_EQ(stress.deadlocks(), 0u);
}

TEST(LockStressTest, TimeoutsAndKills) {
  Settings settings;
  settings.kills = true;
  settings.short_waits = true;
  Stress(settings).run(new_seed());
}

TEST(LockStressTest, RowLocksExchangedForRowRanges) {
  Settings settings;
  settings.keys = 10;
  settings.locks = 12;
  settings.kills = true;
  settings.row_locks_max = 2;
  Stress(settings).run(new_seed());
}

TEST(LockStressTest, ReadersExchangeAndWritersQueue) {
  Settings settings;
  settings.threads = 12;
  settings.keys = 3;
  settings.readers_of = 5;
  settings.row_locks_max = 1;
  settings.short_waits = true;
  Stress(settings).run(new_seed());
}

TEST(LockStressTest, RowRangesReachOverTheKeysOfOthers) {
  Settings settings;
  settings.keys = 12;
  settings.locks = 10;
  settings.row_locks_max = 1;
  settings.row_ranges_max = 1;
  Stress(settings).run(new_seed());
}

TEST(LockStressTest, ScansLockRangesWithTheirRows) {
  Settings settings;
  settings.keys = 8;
  settings.scans = true;
  settings.short_waits = true;
  settings.kills = true;
  Stress(settings).run(new_seed());
}

TEST(LockStressTest, OrderedScansNeverDeadlock) {
  Settings settings;
  settings.threads = 8;
  settings.keys = 10;
  settings.ordered = true;
  settings.scans = true;
  Stress stress(settings);
  stress.run(new_seed());
  EXPECT_EQ(stress.deadlocks(), 0u);
}

TEST(LockStressTest, KillsOfLongWaits) {
  Settings settings;
  settings.kills = true;
  settings.threads = 10;
  Stress(settings).run(new_seed());
}

}  // namespace
}  // namespace atoll::txn
