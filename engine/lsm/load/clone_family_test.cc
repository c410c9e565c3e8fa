// Goal:   a clone has the rows of its source family and none of the source's later changes, no table file is
//         copied, and both families survive restarts.
// Method: random writes, flushes, compactions and ingestions over a fake bucket, compared with a map;
//         injected faults.
#include <rocksdb/sst_file_writer.h>

#include <iostream>
#include <map>
#include <random>

#include "lsm/test_database.h"
#include "lsm/raw.h"

namespace atoll::lsm {
namespace {

using Rows = std::map<std::string, std::string>;

Rows rows_of(const Family *family) {
  Rows rows;
  const std::unique_ptr<rocksdb::Iterator> it = family->iterator(rocksdb::ReadOptions());
  for (it->SeekToFirst(); it->Valid(); it->Next()) rows[it->key().ToString()] = it->value().ToString();
  EXPECT_TRUE(it->status().ok()) << it->status().ToString();
  return rows;
}

class CloneFamilyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_ATOLL_OK(database_.open());
    ASSERT_ATOLL_OK(database_->create_family(Compression(), &source_));
  }
  // Puts rows over older ones by ingesting a file that was made outside of the database.
  void ingest(const Rows &rows) {
    const std::string path = (database_.root() / "made.sst").string();
    rocksdb::SstFileWriter writer{rocksdb::EnvOptions(), rocksdb::Options()};
    ASSERT_TRUE(writer.Open(path).ok());
    for (const auto &[key, value] : rows) ASSERT_TRUE(writer.Put(key, value).ok());
    ASSERT_TRUE(writer.Finish().ok());
    rocksdb::IngestExternalFileOptions options;
    options.move_files = true;
    const auto status = Raw::of(source_)->IngestExternalFile(source_->handle(), {path}, options);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  size_t uploads() {
    atoll_store *store = database_.store();
    return store->count("add ") + store->count("bind ") + store->count("stage");
  }
  // Restarts the database and finds the families again.
  void reopen(std::vector<Family **> families) {
    std::vector<uint32_t> ids;
    for (Family **family : families) ids.push_back((*family)->id());
    ASSERT_ATOLL_OK(database_.reopen());
    for (size_t i = 0; i < ids.size(); ++i) ASSERT_NE(*families[i] = database_->find_family(ids[i]), nullptr);
  }

  TestDatabase database_{true};
  Family *source_ = nullptr;
};

class Writer {
 public:
  explicit Writer(unsigned seed) : random_(seed) {}
  uint64_t below(uint64_t end) { return random_() % end; }
  std::string key() { return test_key(below(200)); }

  void change(TestDatabase *database, Family *family, Rows *rows) {
    const std::string at = key();
    if (below(4) == 0) {
      ASSERT_ATOLL_OK(database->remove(family, at));
      rows->erase(at);
    } else {
      const std::string value = std::to_string(random_());
      ASSERT_ATOLL_OK(database->put(family, at, value));
      (*rows)[at] = value;
    }
  }

 private:
  std::mt19937_64 random_;
};

TEST_F(CloneFamilyTest, has_the_rows_of_its_source_and_a_life_of_its_own) {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  Writer writer(seed);
  Rows rows;
  for (int step = 0; step < 400; ++step) {
    writer.change(&database_, source_, &rows);
    const uint64_t dice = writer.below(40);
    if (dice == 0) ASSERT_ATOLL_OK(database_->flush(source_));
    if (dice == 1) ASSERT_ATOLL_OK(database_->compact(source_, "", ""));
    if (dice > 2) continue;
    Rows loaded;
    for (int i = 0; i < 5; ++i) loaded[writer.key()] = "loaded " + std::to_string(step);
    ingest(loaded);
    for (const auto &[key, value] : loaded) rows[key] = value;
  }
  Family *clone = nullptr;
  ASSERT_ATOLL_OK(database_->flush(source_));
  ASSERT_ATOLL_OK(database_->clone_family(source_, nullptr, Compression(), &clone));
  Rows clone_rows = rows;
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(rows_of(source_), rows);
    ASSERT_EQ(rows_of(clone), clone_rows);
    for (int i = 0; i < 100; ++i) writer.change(&database_, source_, &rows);
    for (int i = 0; i < 100; ++i) writer.change(&database_, clone, &clone_rows);
    reopen({&source_, &clone});
    ASSERT_ATOLL_OK(database_->compact(source_, "", ""));
    if (round == 1) ASSERT_ATOLL_OK(database_->compact(clone, "", ""));
  }
  EXPECT_EQ(rows_of(source_), rows);
  EXPECT_EQ(rows_of(clone), clone_rows);
}

TEST_F(CloneFamilyTest, keeps_the_levels_of_its_source) {
  for (int round = 0; round < 6; ++round) {
    for (uint64_t i = 0; i < 500; ++i)
      ASSERT_ATOLL_OK(database_.put(source_, test_key(i), std::to_string(round)));
    ASSERT_ATOLL_OK(database_->flush(source_));
    if (round == 2) ASSERT_ATOLL_OK(database_->compact(source_, "", ""));
  }
  const auto levels = [&](Family *family) {
    std::map<int, int> files;
    for (const TableFile &file : database_->table_files())
      if (file.family_id == family->id()) files[file.level]++;
    return files;
  };
  Family *clone = nullptr;
  ASSERT_ATOLL_OK(database_->clone_family(source_, nullptr, Compression(), &clone));
  EXPECT_EQ(levels(clone), levels(source_));
  EXPECT_GT(levels(clone).size(), 1u);
}

TEST_F(CloneFamilyTest, copies_nothing) {
  for (uint64_t i = 0; i < 1000; ++i) ASSERT_ATOLL_OK(database_.put(source_, test_key(i), "x"));
  ASSERT_ATOLL_OK(database_->flush(source_));
  const size_t before = uploads();
  Family *clone = nullptr;
  ASSERT_ATOLL_OK(database_->clone_family(source_, nullptr, Compression(), &clone));
  EXPECT_EQ(uploads(), before);
  EXPECT_EQ(database_.count(clone), 1000);
}

TEST_F(CloneFamilyTest, of_nothing_is_empty) {
  Family *clone = nullptr;
  ASSERT_ATOLL_OK(database_->clone_family(source_, nullptr, Compression(), &clone));
  EXPECT_EQ(database_.count(clone), 0);
}

TEST_F(CloneFamilyTest, fails_without_a_trace) {
  ASSERT_ATOLL_OK(database_.put(source_, "key", "value"));
  database_.store()->fail = [](const std::string &call) {
    return call.starts_with("share") ? Code::kUnavailable : Code::kOk;
  };
  Family *clone = nullptr;
  EXPECT_EQ(database_->clone_family(source_, nullptr, Compression(), &clone).code(), Code::kUnavailable);
  EXPECT_EQ(clone, nullptr);
  database_.store()->fail = nullptr;
  ASSERT_ATOLL_OK(database_->clone_family(source_, nullptr, Compression(), &clone));
  EXPECT_EQ(database_.get(clone, "key"), "value");
}

}  // namespace
}  // namespace atoll::lsm
