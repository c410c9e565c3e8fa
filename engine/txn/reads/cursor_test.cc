// Goal:   a cursor never shows or passes entries outside of its bounds, whatever bounds it had before, and
//         shows a remembered range as RocksDB would show it.
// Method: fixed steps whose searches are counted. Then random bounds, own writes and moves, compared with a
//         sorted map. The seed is printed.
#include "txn/reads/cursor.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>

#include "txn/test_database.h"
#include "txn/transaction.h"

namespace atoll::txn {
namespace {

class CursorTest : public ::testing::Test {
 protected:
  CursorTest() : database(directory.path()), family(database.shared_family()), scope(&work) {
    EXPECT_TRUE(Manager::open(&database, &database, &manager).ok());
  }

  void commit(const std::map<std::string, std::string> &rows) {
    const auto writer = manager->begin(nullptr);
    for (const auto &[key, value] : rows) ASSERT_TRUE(writer->put(family, key, value).ok());
    ASSERT_TRUE(writer->commit(false).ok());
  }
  void remove(const std::string &key) {
    const auto writer = manager->begin(nullptr);
    ASSERT_TRUE(writer->remove(family, key).ok());
    ASSERT_TRUE(writer->commit(false).ok());
  }
  std::unique_ptr<Cursor> open(Transaction *transaction, ReadAt at = ReadAt::kLatest) {
    ScanOptions options;
    options.lower = "a";
    options.upper = "zz";
    return transaction->scan(family, at, options);
  }
  static std::string keys_forward(Cursor *cursor, const std::string &from) {
    std::string keys;
    for (cursor->Seek(from); cursor->Valid(); cursor->Next()) keys += cursor->key().ToString();
    return keys;
  }
  static std::string keys_backward(Cursor *cursor) {
    std::string keys;
    for (cursor->SeekToLast(); cursor->Valid(); cursor->Prev()) keys += cursor->key().ToString();
    return keys;
  }

  static RememberedRange range_of(const std::map<std::string, std::string> &entries, const std::string &upper,
                                  bool is_whole = true) {
    RememberedRange range{upper, {}, is_whole};
    for (const auto &[key, value] : entries) range.entries.append(key, value);
    return range;
  }

  // Remembers the first entries of the range, `entries_max` at most, as an estimate does.
  static void remember_some(Cursor *cursor, const std::string &lower, const std::string &upper,
                            size_t entries_max) {
    RememberedRange start{upper, {}, false};
    for (cursor->Seek(lower); cursor->Valid(); cursor->Next()) {
      start.entries.append(cursor->key().ToStringView(), cursor->value().ToStringView());
      if (start.entries.size() == entries_max) return cursor->remember(lower, std::move(start));
    }
  }

  TestDirectory directory;
  TestDatabase database;
  lsm::Family *family;
  std::unique_ptr<Manager> manager;
  Work work;
  WorkScope scope;
};

TEST_F(CursorTest, BoundsMayChangeBeforeEachSearch) {
  commit({{"b", "1"}, {"c", "2"}, {"d", "3"}, {"e", "4"}, {"f", "5"}});
  const auto reader = manager->begin(nullptr);
  const auto cursor = open(reader.get());
  cursor->set_bounds("c", "e");
  EXPECT_EQ(keys_forward(cursor.get(), "a"), "cd");
  EXPECT_EQ(keys_backward(cursor.get()), "dc");
  cursor->set_bounds("b", "d");
  EXPECT_EQ(keys_backward(cursor.get()), "cb");
  cursor->set_bounds("e", "z");
  EXPECT_EQ(keys_forward(cursor.get(), "e"), "ef");
  EXPECT_EQ(work.count(WorkKind::kCursorsOpened), 1);
}

TEST_F(CursorTest, OwnWritesKeepTheBoundsToo) {
  commit({{"b", "1"}, {"d", "3"}, {"f", "5"}});
  const auto reader = manager->begin(nullptr);
  ASSERT_TRUE(reader->put(family, "c", "own").ok());
  ASSERT_TRUE(reader->put(family, "e", "own").ok());
  ASSERT_TRUE(reader->remove(family, "d").ok());
  const auto cursor = open(reader.get());
  EXPECT_TRUE(cursor->has_own_writes());
  cursor->set_bounds("c", "e");
  EXPECT_EQ(keys_forward(cursor.get(), "a"), "c");
  cursor->set_bounds("b", "f");
  EXPECT_EQ(keys_backward(cursor.get()), "ecb");
}

TEST_F(CursorTest, TombstonesBehindTheRangeAreNotPassed) {
  std::map<std::string, std::string> rows;
  for (int i = 0; i < 500; ++i) rows["m" + std::to_string(1000 + i)] = "v";
  commit(rows);
  for (const auto &[key, value] : rows) remove(key);
  commit({{"b", "1"}, {"c", "2"}, {"x", "3"}});
  const auto reader = manager->begin(nullptr);
  const auto cursor = open(reader.get());
  cursor->set_bounds("a", "d");
  EXPECT_EQ(keys_forward(cursor.get(), "a"), "bc");
  EXPECT_EQ(work.count(WorkKind::kCursorSeeks), 1);
  EXPECT_EQ(work.count(WorkKind::kCursorSteps), 2);
}

TEST_F(CursorTest, ARememberedRangeIsReadWithoutASearch) {
  commit({{"b", "1"}, {"c", "2"}, {"d", "3"}});
  const auto reader = manager->begin(nullptr);
  const auto cursor = open(reader.get());
  cursor->remember("b", range_of({{"b", "1"}, {"c", "2"}}, "d"));
  cursor->remember("x", range_of({}, "y"));
  cursor->set_bounds("b", "d");
  EXPECT_EQ(keys_forward(cursor.get(), "b"), "bc");
  EXPECT_EQ(keys_forward(cursor.get(), "bb"), "c");
  EXPECT_EQ(keys_backward(cursor.get()), "cb");
  cursor->SeekForPrev("bz");
  EXPECT_EQ(cursor->key().ToString(), "b");
  EXPECT_EQ(cursor->value().ToString(), "1");
  cursor->set_bounds("x", "y");
  cursor->Seek("x");
  EXPECT_FALSE(cursor->Valid());
  EXPECT_EQ(work.count(WorkKind::kCursorSeeks), 0);
  cursor->set_bounds("b", "e");  // another upper bound than the remembered range has
  EXPECT_EQ(keys_forward(cursor.get(), "b"), "bcd");
  EXPECT_EQ(work.count(WorkKind::kCursorSeeks), 1);
}

TEST_F(CursorTest, ARememberedStartIsShownAndTheCursorGoesOnBehindIt) {
  commit({{"b", "1"}, {"c", "2"}, {"d", "3"}, {"e", "4"}});
  const auto reader = manager->begin(nullptr);
  const auto cursor = open(reader.get());
  const auto remember = [&] {
    cursor->set_bounds("b", "f");
    cursor->Seek("b");
    cursor->Next();
    cursor->remember("b", range_of({{"b", "1"}, {"c", "2"}}, "f", false));
    work.clear();
  };
  remember();
  cursor->set_bounds("b", "f");
  EXPECT_EQ(keys_forward(cursor.get(), "b"), "bcde");
  EXPECT_EQ(work.count(WorkKind::kCursorSeeks), 0);
  // RocksDB's iterator has moved on, so now it must search for the last remembered entry.
  EXPECT_EQ(keys_forward(cursor.get(), "b"), "bcde");
  EXPECT_EQ(work.count(WorkKind::kCursorSeeks), 1);

  remember();
  cursor->set_bounds("b", "f");
  cursor->Seek("b");
  cursor->Prev();
  EXPECT_FALSE(cursor->Valid());

  remember();
  cursor->set_bounds("b", "f");
  EXPECT_EQ(keys_backward(cursor.get()), "edcb");
  remember();
  cursor->set_bounds("b", "f");
  EXPECT_EQ(keys_forward(cursor.get(), "bb"), "cde");
  EXPECT_EQ(work.count(WorkKind::kCursorSeeks), 0);
  remember();
  cursor->set_bounds("b", "f");
  EXPECT_EQ(keys_forward(cursor.get(), "d"), "de");  // a search for a key after the remembered entries
  remember();
  cursor->set_bounds("b", "e");
  EXPECT_EQ(keys_forward(cursor.get(), "b"), "bcd");
  remember();
  cursor->SeekToLast();  // the estimate itself moves RocksDB's iterator
  cursor->set_bounds("b", "f");
  EXPECT_EQ(keys_forward(cursor.get(), "b"), "bcde");
  EXPECT_EQ(work.count(WorkKind::kCursorSeeks), 2);
}

// In a table used as a queue, there are many tombstones before its first row. The estimate has passed them
// once, so the read of one row need not pass them again.
TEST_F(CursorTest, ARememberedStartSparesTheSearchThoughTheCursorHasMoved) {
  commit({{"b", "1"}, {"c", "2"}, {"d", "3"}, {"x", "4"}});
  const auto reader = manager->begin(nullptr);
  const auto cursor = open(reader.get());
  cursor->set_bounds("b", "f");
  cursor->Seek("b");
  cursor->Next();
  cursor->remember("b", range_of({{"b", "1"}, {"c", "2"}}, "f", false));
  cursor->SeekToLast();
  cursor->set_bounds("x", "y");  // the estimate of another range
  EXPECT_EQ(keys_forward(cursor.get(), "x"), "x");
  work.clear();
  cursor->set_bounds("b", "f");
  cursor->Seek("b");
  EXPECT_EQ(cursor->key().ToString(), "b");
  EXPECT_EQ(work.count(WorkKind::kCursorSeeks), 0);
  EXPECT_EQ(keys_forward(cursor.get(), "b"), "bcd");
  EXPECT_EQ(work.count(WorkKind::kCursorSeeks), 1);
}

TEST_F(CursorTest, RefreshShowsWhatIsCommittedByNowAndForgetsRanges) {
  commit({{"b", "1"}});
  const auto reader = manager->begin(nullptr);
  const auto cursor = open(reader.get());
  cursor->remember("a", range_of({{"b", "1"}}, "z"));
  commit({{"c", "2"}});
  ASSERT_TRUE(cursor->refresh());
  cursor->set_bounds("a", "z");
  EXPECT_EQ(keys_forward(cursor.get(), "a"), "bc");
  remove("b");
  ASSERT_TRUE(cursor->refresh());
  cursor->set_bounds("a", "z");
  EXPECT_EQ(keys_backward(cursor.get()), "c");
}

TEST_F(CursorTest, RandomBoundsMatchASortedMap) {
  const uint64_t seed = std::random_device()();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  const auto any_key = [&] { return std::string(1, static_cast<char>('b' + random() % 20)); };
  std::map<std::string, std::string> rows;
  for (int round = 0; round < 300; ++round) {
    const std::string key = any_key();
    if (random() % 3 == 0) {
      rows.erase(key);
      remove(key);
    } else {
      rows[key] = std::to_string(round);
      commit({{key, rows[key]}});
    }
    if (random() % 16 == 0) {
      ASSERT_TRUE(database.flush(family).ok());
    }
    const auto reader = manager->begin(nullptr);
    std::map<std::string, std::string> seen = rows;
    for (uint64_t writes = random() % 3; writes > 0; --writes) {
      const std::string own = any_key();
      seen[own] = "own";
      ASSERT_TRUE(reader->put(family, own, "own").ok());
    }
    const auto cursor = open(reader.get());
    for (int search = 0; search < 5; ++search) {
      std::string lower = any_key(), upper = any_key();
      if (upper < lower) std::swap(lower, upper);
      std::string expected, backward;
      for (auto it = seen.lower_bound(lower); it != seen.end() && it->first < upper; ++it)
        expected += it->first, backward.insert(0, it->first);
      cursor->set_bounds(lower, upper);
      if (random() % 2 == 0) {
        remember_some(cursor.get(), lower, upper, 1 + random() % 4);
        if (random() % 4 == 0) cursor->SeekToLast();
        if (random() % 4 == 0) {
          cursor->set_bounds(any_key(), "zz");
          cursor->SeekToFirst();
        }
        cursor->set_bounds(lower, upper);
        const auto from = seen.lower_bound(any_key());
        if (from != seen.end() && from->first >= lower && from->first < upper) {
          cursor->Seek(from->first);
          ASSERT_TRUE(cursor->Valid());
          ASSERT_EQ(cursor->key().ToString(), from->first) << lower << ' ' << upper << " round " << round;
          cursor->set_bounds(lower, upper);
        }
      }
      ASSERT_EQ(keys_forward(cursor.get(), lower), expected) << lower << ' ' << upper << " round " << round;
      ASSERT_EQ(keys_backward(cursor.get()), backward) << lower << ' ' << upper << " round " << round;
    }
  }
}

}  // namespace
}  // namespace atoll::txn
