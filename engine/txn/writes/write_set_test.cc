// Goal:   the index of own writes behaves like a map with savepoints. Cursors and merged iterators show the
//         map as it was when they were opened (WRITE-1 to WRITE-3 of write_set.h).
// Method: random operations, compared with a model made of std::map copies. The merged iterator runs over a
//         real database, with random bounds and random moves in both directions. Seeds are printed.

#include "txn/writes/write_set.h"

#include <gtest/gtest.h>
#include <rocksdb/write_batch.h>

#include <chrono>
#include <map>
#include <optional>
#include <random>

#include "txn/reads/merged_iterator.h"
#include "txn/test_database.h"
#include "txn/transaction.h"

namespace atoll::txn {
namespace {

using Model = std::map<std::string, std::optional<std::string>>;  // nullopt: removed

class FakeFamily final : public lsm::Family {
 public:
  explicit FakeFamily(lsm::Side side) : side_(side) {}
  uint32_t id() const override { return 1; }
  lsm::Side side() const override { return side_; }
  rocksdb::DB *base() const override { return nullptr; }
  rocksdb::ColumnFamilyHandle *handle() const override { return nullptr; }

 private:
  lsm::Side side_;
};

std::string random_key(std::mt19937_64 &random, int range) {
  return "k" + std::to_string(random() % static_cast<uint64_t>(range));
}

Model contents(const WriteSet &set, lsm::Side side) {
  Model all;
  set.each(side, [&](lsm::Family *, std::string_view key, const OwnWrite &write) {
    if (write.removed)
      all[std::string(key)] = std::nullopt;
    else
      all[std::string(key)] = std::string(write.value());
  });
  return all;
}

Model contents(const std::shared_ptr<WriteSet> &set, WriteCursor &cursor) {
  Model all;
  for (cursor.to_first(); cursor.valid(); cursor.next()) {
    if (cursor.write().removed)
      all[std::string(cursor.key())] = std::nullopt;
    else
      all[std::string(cursor.key())] = std::string(cursor.write().value());
  }
  (void)set;
  return all;
}

struct ModelSavepoint {
  Model model;
  uint64_t write_count;
  bool forgotten = false;
};

// Makes random steps on the set and on a model of it. Each savepoint keeps a copy of the model.
struct Stepper {
  WriteSet *set;
  FakeFamily *family;
  Model model;
  std::vector<ModelSavepoint> savepoints;

  void step(std::mt19937_64 &random, bool may_roll_back) {
    const uint64_t what = random() % 100;
    if (what < 60) {
      const std::string key = random_key(random, 200),
                        value(random() % 40, static_cast<char>('a' + random() % 26));
      set->write(family, key, {value, false});
      model[key] = value;
    } else if (what < 80) {
      const std::string key = random_key(random, 200);
      set->write(family, key, {{}, true});
      model[key] = std::nullopt;
    } else if (what < 88) {
      set->set_savepoint();
      savepoints.push_back({model, set->write_count()});
    } else if (!savepoints.empty()) {
      step_back(random() % savepoints.size(), what, may_roll_back);
    }
  }

  void step_back(size_t number, uint64_t what, bool may_roll_back) {
    if (savepoints[number].forgotten) return;
    if (what < 94 && may_roll_back) {
      set->rollback_to_savepoint(number);
      savepoints.resize(number + 1);
      model = savepoints.back().model;
      ASSERT_EQ(set->write_count(), savepoints.back().write_count);
      return;
    }
    if (what < 97) {
      set->forget_savepoint(number);
      savepoints[number].forgotten = true;
    } else {
      set->release_savepoint(number);
      savepoints.resize(number);
    }
    while (!savepoints.empty() && savepoints.back().forgotten) savepoints.pop_back();
    ASSERT_EQ(set->savepoints(), savepoints.size());
  }
};

TEST(WriteSetTest, RandomOperationsMatchTheModel) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (int round = 0; round < 60; ++round) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(round));
    FakeFamily family(lsm::Side::kMain);
    WriteSet set;
    Stepper stepper{&set, &family, {}, {}};
    for (int i = 0; i < 1500; ++i) {
      stepper.step(random, true);
      if (i % 20 != 0) continue;
      ASSERT_EQ(contents(set, lsm::Side::kMain), stepper.model) << "round " << round << " step " << i;
      ASSERT_EQ(set.has_writes(lsm::Side::kMain), !stepper.model.empty());
      const std::string key = random_key(random, 200);
      const OwnWrite *own = set.find(&family, key);
      ASSERT_EQ(own != nullptr, stepper.model.count(key) == 1);
    }
  }
}

TEST(WriteSetTest, CursorSeesItsOpeningOnly) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (int round = 0; round < 60; ++round) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(round));
    FakeFamily family(lsm::Side::kMain);
    auto set = std::make_shared<WriteSet>();
    Stepper stepper{set.get(), &family, {}, {}};
    for (int i = 0; i < 400; ++i) stepper.step(random, true);
    set->write(&family, "k1", {"x", false});
    stepper.model["k1"] = "x";
    const Model before = stepper.model;
    {
      WriteCursor cursor(set, set->find_family(&family));
      for (int i = 0; i < 400; ++i) stepper.step(random, false);
      ASSERT_EQ(contents(set, cursor), before);
    }
    // The open cursor has kept memory from being freed. Rollbacks after its end must still be right.
    for (int i = 0; i < 400; ++i) stepper.step(random, true);
    ASSERT_EQ(contents(*set, lsm::Side::kMain), stepper.model);
  }
}

TEST(WriteSetTest, RollbackUnderAnOpenCursorIsUndoneRight) {
  FakeFamily family(lsm::Side::kMain);
  auto set = std::make_shared<WriteSet>();
  set->write(&family, "a", {"1", false});
  set->set_savepoint();
  {
    WriteCursor cursor(set, set->find_family(&family));
    set->write(&family, "b", {"2", false});
    set->rollback_to_savepoint(0);
  }
  EXPECT_EQ(set->find(&family, "b"), nullptr);
  set->write(&family, "c", {std::string(100, 'c'), false});
  set->rollback_to_savepoint(0);
  set->write(&family, "b", {"3", false});
  Model expected{{"a", "1"}, {"b", "3"}};
  for (int i = 0; i < 50; ++i) {
    const std::string key = "d" + std::to_string(i);
    set->write(&family, key, {"4", false});
    expected[key] = "4";
  }
  EXPECT_EQ(contents(*set, lsm::Side::kMain), expected) << "memory of the emptied entry was given away";
}

TEST(WriteSet, OneSmallRowTakesLittleMemory) {
  FakeFamily family(lsm::Side::kMain);
  WriteSet set;
  set.write(&family, "key", {std::string(200, 'v'), false, 0});
  EXPECT_LE(set.memory_bytes(), 2048u);
}

// A large transaction is spilled set by set. Each interval of a set costs a walk over all its writes, so it
// matters which intervals cannot have any.
TEST(WriteSetTest, ASuccessorHasOnlyTheIntervalBehindTheLastSavepoint) {
  FakeFamily family(lsm::Side::kMain);
  WriteSet set;
  set.write(&family, "a", {"1", false, 0});
  set.set_savepoint();
  set.write(&family, "b", {"2", false, 0});
  const auto with_writes = [](const WriteSet &of) {
    const std::vector<uint64_t> ends = of.interval_ends();
    return std::count_if(ends.begin(), ends.end(), [&](uint64_t end) { return end > of.first_sequence(); });
  };
  EXPECT_EQ(with_writes(set), 2);
  const std::shared_ptr<WriteSet> next = set.successor();
  EXPECT_EQ(with_writes(*next), 1);
  next->write(&family, "c", {"3", false, 0});
  int found = 0;
  next->each_between(next->first_sequence(), UINT64_MAX, [&](auto *, std::string_view, auto &) { found++; });
  EXPECT_EQ(found, 1);
}

TEST(WriteSetTest, RepeatedOverwritesAndRolledBackWritesTakeNoMemory) {
  FakeFamily family(lsm::Side::kMain);
  WriteSet set;
  set.write(&family, "counter", {"00000000", false});
  const size_t at_start = set.memory_bytes();
  for (int i = 0; i < 100000; ++i) set.write(&family, "counter", {"12345678", false});
  EXPECT_EQ(set.memory_bytes(), at_start);
  EXPECT_EQ(set.write_count(), 100001u);
  for (int i = 0; i < 100; ++i) {
    set.set_savepoint();
    for (int k = 0; k < 1000; ++k) set.write(&family, std::to_string(k), {std::string(50, 'v'), false});
    set.rollback_to_savepoint(0);
    set.release_savepoint(0);
  }
  EXPECT_LE(set.memory_bytes(), at_start + (8 << 10));  // the memory of one leaf of the index stays
}

// A rollback to a savepoint must cost only as much as the writes that it undoes (WRITE-1). The limit of 20 s
// is generous: the test must only notice when each of the 1,000 rollbacks costs as much as the whole
// transaction (seconds).
TEST(WriteSetTest, SmallRollbackInAHugeTransactionIsFast) {
  FakeFamily family(lsm::Side::kMain);
  WriteSet set;
  const std::string value(100, 'v');
  char key[32];
  for (int i = 0; i < 1000000; ++i) {
    const int size = std::snprintf(key, sizeof key, "%08u", static_cast<unsigned>(i) * 2654435761u);
    set.write(&family, {key, static_cast<size_t>(size)}, {value, false});
  }
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) {
    set.set_savepoint();
    set.write(&family, "one", {value, false});
    set.rollback_to_savepoint(0);
    set.release_savepoint(0);
  }
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(std::chrono::duration_cast<std::chrono::seconds>(took).count(), 20);
  EXPECT_EQ(set.write_count(), 1000000u);
}

// The rows that a merged iterator must show.
using Rows = std::map<std::string, std::string>;

class MergedIteratorTest : public ::testing::Test {
 protected:
  TestDirectory directory;
  TestDatabase database{directory.path()};
  lsm::Family *family = database.shared_family();

  static void check(const rocksdb::Iterator &iterator, const Rows &rows, Rows::const_iterator place) {
    ASSERT_TRUE(iterator.status().ok());
    ASSERT_EQ(iterator.Valid(), place != rows.end());
    if (!iterator.Valid()) return;
    ASSERT_EQ(iterator.key().ToString(), place->first);
    ASSERT_EQ(iterator.value().ToString(), place->second);
  }

  static Rows::const_iterator last_at_most(const Rows &rows, const std::string &key) {
    auto it = rows.upper_bound(key);
    return it == rows.begin() ? rows.end() : std::prev(it);
  }

  static void walk(rocksdb::Iterator *iterator, const Rows &rows, std::mt19937_64 &random) {
    auto place = rows.begin();
    iterator->SeekToFirst();
    for (int i = 0; i < 200; ++i) {
      check(*iterator, rows, place);
      if (::testing::Test::HasFatalFailure()) return;
      const uint64_t what = random() % 20;
      if (place == rows.end() || what < 4) {
        const std::string key = random_key(random, 130);
        switch (what % 4) {
          case 0:
            iterator->Seek(key);
            place = rows.lower_bound(key);
            break;
          case 1:
            iterator->SeekForPrev(key);
            place = last_at_most(rows, key);
            break;
          case 2:
            iterator->SeekToFirst();
            place = rows.begin();
            break;
          default:
            iterator->SeekToLast();
            place = rows.empty() ? rows.end() : std::prev(rows.end());
        }
      } else if (what < 12) {
        iterator->Next();
        ++place;
      } else {
        iterator->Prev();
        place = place == rows.begin() ? rows.end() : std::prev(place);
      }
    }
  }
};

TEST_F(MergedIteratorTest, RandomBoundsAndWalksMatchTheModel) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::unique_ptr<Manager> manager;
  ASSERT_TRUE(Manager::open(&database, &database, &manager).ok());
  Rows committed;
  for (int round = 0; round < 400; ++round) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(round));
    auto transaction = manager->begin(nullptr);
    Rows rows = committed;
    for (uint64_t i = random() % 60; i > 0; --i) {
      const std::string key = random_key(random, 130);
      if (random() % 3 == 0) {
        ASSERT_TRUE(transaction->remove(family, key).ok());
        rows.erase(key);
      } else {
        rows[key] = "v" + std::to_string(random());
        ASSERT_TRUE(transaction->put(family, key, rows[key]).ok());
      }
    }
    ScanOptions options;
    if (random() % 2 == 0) options.lower = random_key(random, 130);
    if (random() % 2 == 0) options.upper = random_key(random, 130);
    if (!options.upper.empty() && options.upper < options.lower) std::swap(options.lower, options.upper);
    Rows bounded(rows.lower_bound(options.lower),
                 options.upper.empty() ? rows.end() : rows.lower_bound(options.upper));
    auto iterator = transaction->scan(family, ReadAt::kLatest, options);
    ASSERT_TRUE(transaction->put(family, random_key(random, 130), "written after opening").ok());
    walk(iterator.get(), bounded, random);
    ASSERT_FALSE(HasFatalFailure()) << "round " << round << " [" << options.lower << ", " << options.upper
                                    << ")";
    iterator.reset();
    if (round % 10 != 0) continue;
    transaction->rollback();
    for (const auto &[key, value] : rows) ASSERT_TRUE(transaction->put(family, key, value).ok());
    for (const auto &[key, value] : committed) {
      if (rows.count(key) > 0) continue;
      ASSERT_TRUE(transaction->remove(family, key).ok());
    }
    ASSERT_TRUE(transaction->commit(false).ok());
    committed = rows;
    if (round % 50 == 0) {
      ASSERT_TRUE(database.flush(family).ok());
    }
  }
}

}  // namespace
}  // namespace atoll::txn
