// Goal:   RowDiff finds the same differences between two states of a table as a comparison of two sorted
//         maps, wherever the rows are: in files of any level, in a family of their own, deleted, written
//         again. It reads only keys of files that differ.
// Method: random changes of a copy of a database, flushed and compacted at random. The seed is printed;
//         ATOLL_TEST_SEED repeats a run.
#include "visitor/row_diff.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "catalog/record.h"
#include "codec/test_tables.h"
#include "lsm/families.h"
#include "lsm/test_database.h"
#include "visitor/row_check.h"

namespace atoll::visitor {
namespace {

using Model = std::map<uint32_t, std::string>;

constexpr uint16_t kPrimary = 1, kSecondary = 2;

// A state as a visitor sees it: here all of a test database. Its memtables must be empty, because files()
// lists only table files.
class StateOfTest final : public lsm::PastDatabase {
 public:
  // Keeps RocksDB from deleting files, because a compaction could delete one between files() and open_file().
  explicit StateOfTest(lsm::TestDatabase *database) : database_(*database) {
    EXPECT_TRUE(lsm::Raw::below(database_.operator->(), lsm::Side::kMain)->DisableFileDeletions().ok());
  }
  ~StateOfTest() override {
    EXPECT_TRUE(lsm::Raw::below(database_.operator->(), lsm::Side::kMain)->EnableFileDeletions().ok());
  }

  lsm::Family *catalog_family() override { return database_->catalog_family(); }
  lsm::Family *find_family(uint32_t id) override { return database_->find_family(id); }
  std::vector<lsm::Gtid> gtids() const override { return {}; }
  uint64_t commit_us() const override { return 0; }

  std::vector<lsm::PastFile> files(lsm::Family *family, std::string_view begin,
                                   std::string_view end) override {
    std::vector<lsm::PastFile> found;
    for (const auto &file : lsm::files_in(lsm::Raw::of(family), family->handle(), begin, end))
      found.push_back(past_file(file));
    return found;
  }

  Status open_file(lsm::Family *family, const lsm::PastFile &file,
                   std::unique_ptr<rocksdb::SstFileReader> *out) override {
    *out = std::make_unique<rocksdb::SstFileReader>(lsm::Raw::of(family)->GetOptions(family->handle()));
    return lsm::from_rocksdb((*out)->Open(file.path));
  }
  Status open_with_tables(std::unique_ptr<lsm::PastDatabase> *) override {
    return Status(Code::kBug, "no test shares table files of the past");
  }
  const std::string &directory() const override { return directory_; }
  std::shared_ptr<cloudfs::PastFiles> file_system() const override { return nullptr; }

 private:
  static lsm::PastFile past_file(const rocksdb::SstFileMetaData &file) {
    lsm::PastFile past;
    past.path = file.db_path + file.name;
    past.smallest_key = file.smallestkey;
    past.in_bucket = true;
    past.number = file.file_number;
    std::stringstream bytes;
    std::ifstream stored(past.path, std::ios::binary);
    EXPECT_TRUE(stored.is_open()) << past.path;
    bytes << stored.rdbuf();
    past.bytes = bytes.str().size();
    past.crc32c = catalog::crc32c(bytes.str());
    return past;
  }

  lsm::TestDatabase &database_;
  const std::string directory_;
};

catalog::TableDef table_in(const lsm::Family *family, uint32_t prefix) {
  catalog::TableDef table;
  table.id = 12;
  table.database = "shop";
  table.name = "orders";
  table.family_id = family->id();
  table.prefix = prefix;
  table.indexes = {{.name = "PRIMARY", .ordinal = kPrimary, .unique = true},
                   {.name = "a", .ordinal = kSecondary}};
  return table;
}

RowCounts expected(const Model &before, const Model &after) {
  RowCounts counts;
  for (const auto &[id, value] : after) {
    const auto found = before.find(id);
    if (found == before.end()) counts.inserted++;
    if (found != before.end() && found->second != value) counts.changed++;
  }
  for (const auto &[id, value] : before) counts.deleted += after.contains(id) ? 0 : 1;
  return counts;
}

class RowDiffTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_ATOLL_OK(first_.open());
    table_ = table_in(first_->shared_family(), 7);
  }

  std::string key(uint32_t id, uint16_t ordinal = kPrimary) const {
    std::string key = index_range(table_, ordinal).begin;
    for (int shift = 24; shift >= 0; shift -= 8) key.push_back(static_cast<char>(id >> shift));
    return key;
  }
  void put(lsm::TestDatabase *database, uint32_t id, const std::string &value, Model *model) {
    ASSERT_ATOLL_OK(database->put((*database)->find_family(table_.family_id), key(id), value));
    (*model)[id] = value;
  }
  void remove(lsm::TestDatabase *database, uint32_t id, Model *model) {
    lsm::Family *family = (*database)->find_family(table_.family_id);
    ASSERT_ATOLL_OK(database->remove(family, key(id)));
    model->erase(id);
  }

  // second_ becomes a copy of first_, with the same files.
  void copy() {
    ASSERT_ATOLL_OK(first_->flush(nullptr));
    first_.close();
    std::filesystem::create_directories(second_.root());
    std::filesystem::copy(first_.options.local_dir, second_.options.local_dir,
                          std::filesystem::copy_options::recursive);
    ASSERT_ATOLL_OK(first_.open());
    ASSERT_ATOLL_OK(second_.open());
  }

  void change(lsm::TestDatabase *database, std::mt19937_64 *random, Model *model) {
    const size_t steps = (*random)() % 300;
    for (size_t step = 0; step < steps; step++) {
      const auto id = static_cast<uint32_t>((*random)() % 1000);
      if ((*random)() % 3 == 0) {
        remove(database, id, model);
      } else {
        put(database, id, "value " + std::to_string((*random)() % 3), model);
      }
      if ((*random)() % 100 == 0) ASSERT_ATOLL_OK((*database)->flush(nullptr));
    }
    if ((*random)() % 3 == 0)
      ASSERT_ATOLL_OK((*database)->compact((*database)->find_family(table_.family_id), "", ""));
  }

  RowCounts compare(const catalog::TableDef *before, const catalog::TableDef *after) {
    EXPECT_TRUE(first_->flush(nullptr).ok() && second_->flush(nullptr).ok());
    StateOfTest first(&first_), second(&second_);
    RowCounts counts;
    const Status status = RowDiff(&first, &second).compare(before, after, &counts);
    EXPECT_TRUE(status.ok()) << status.message();
    return counts;
  }
  static void expect_equal(const RowCounts &found, const RowCounts &wanted) {
    EXPECT_EQ(found.inserted, wanted.inserted);
    EXPECT_EQ(found.changed, wanted.changed);
    EXPECT_EQ(found.deleted, wanted.deleted);
  }

  lsm::TestDatabase first_{false}, second_{false};
  catalog::TableDef table_;
  Model model_;
};

TEST_F(RowDiffTest, random_changes_are_counted_as_a_sorted_map_counts_them) {
  const uint64_t seed = codec::testing::seed_of_this_run();
  std::mt19937_64 random(seed);
  for (int run = 0; run < 3; run++) change(&first_, &random, &model_);
  copy();
  Model after = model_;
  for (int round = 0; round < 12; round++) {
    change(&second_, &random, &after);
    expect_equal(compare(&table_, &table_), expected(model_, after));
    // Now each state also has files that the other one lacks.
    if (round % 4 == 3) change(&first_, &random, &model_);
    expect_equal(compare(&table_, &table_), expected(model_, after));
  }
}

TEST_F(RowDiffTest, only_keys_of_files_that_differ_are_looked_at) {
  for (uint32_t id = 0; id < 5000; id++) put(&first_, id, "value", &model_);
  ASSERT_ATOLL_OK(first_->flush(nullptr));
  ASSERT_ATOLL_OK(first_->compact(first_->shared_family(), "", ""));
  copy();
  EXPECT_EQ(compare(&table_, &table_).keys_read, 0u);
  Model after = model_;
  put(&second_, 3, "changed", &after);
  put(&second_, 4000, "value", &after);  // this key is in a new file, but its value is the same
  remove(&second_, 17, &after);
  const RowCounts found = compare(&table_, &table_);
  expect_equal(found, {.inserted = 0, .changed = 1, .deleted = 1});
  EXPECT_EQ(found.keys_read, 3u);
}

TEST_F(RowDiffTest, a_table_that_has_moved_is_compared_row_by_row) {
  for (uint32_t id = 0; id < 100; id++) put(&first_, id, "value", &model_);
  copy();
  lsm::Family *family = nullptr;
  ASSERT_ATOLL_OK(second_->create_family({}, &family));
  const catalog::TableDef before = table_;
  table_ = table_in(family, 0);
  Model after;
  for (uint32_t id = 1; id < 101; id++) put(&second_, id, id == 50 ? "changed" : "value", &after);
  expect_equal(compare(&before, &table_), {.inserted = 1, .changed = 1, .deleted = 1});
  expect_equal(compare(nullptr, &table_), {.inserted = 100, .changed = 0, .deleted = 0});
  expect_equal(compare(&before, nullptr), {.inserted = 0, .changed = 0, .deleted = 100});
}

TEST_F(RowDiffTest, a_table_with_an_entry_for_each_row_is_sound) {
  lsm::Family *family = first_->shared_family();
  for (uint32_t id = 0; id < 100; id++) {
    put(&first_, id, "value", &model_);
    ASSERT_ATOLL_OK(first_.put(family, key(id, kSecondary), ""));
  }
  StateOfTest state(&first_);
  StoredTable stored;
  ASSERT_ATOLL_OK(read_table(&state, table_, &stored));
  EXPECT_EQ(stored.rows, 100u);
  EXPECT_EQ(stored.entries, 100u);
  EXPECT_EQ(stored.problem, "");
  ASSERT_ATOLL_OK(first_.put(family, key(100, kSecondary), ""));
  ASSERT_ATOLL_OK(read_table(&state, table_, &stored));
  EXPECT_EQ(stored.problem, "the index `a` has 101 entries for 100 rows");
}

}  // namespace
}  // namespace atoll::visitor
