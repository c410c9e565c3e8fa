// Goal:   ingested run files change exactly their keys, and writes of other threads stay in the right order
//         with the ingestion.
// Method: run files are written and ingested over the fake store, whose record of calls shows the order of
//         the writes to log and MANIFEST.

#include "lsm/load/run_file.h"

#include <atomic>
#include <thread>

#include "lsm/test_database.h"

namespace atoll::lsm {
namespace {

class RunFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_ATOLL_OK(database_.open());
    ASSERT_ATOLL_OK(database_->create_family(Compression{}, &family_));
    ASSERT_ATOLL_OK(database_->create_family(Compression{}, &other_));
    std::filesystem::create_directories(database_->spill_directory());
  }

  // Writes a file that gives the keys [from, to) `value`; an empty `value` removes them.
  std::string write_file(uint64_t from, uint64_t to, const std::string &value) {
    std::string path = database_->spill_directory() + "/" + std::to_string(++files_) + ".sst";
    RunFileWriter writer(database_->run_file_options(), path);
    for (uint64_t i = from; i < to; ++i) EXPECT_TRUE(writer.add(test_key(i), value, value.empty()).ok());
    EXPECT_TRUE(writer.finish().ok());
    return path;
  }
  Status take_in(const std::vector<std::string> &paths) {
    Ingestion ingestion;
    ATOLL_RETURN_IF_ERROR(
        ingestion.prepare(database_.operator->(), Side::kMain, {{family_->handle(), paths}}, false));
    return database_->commit_ingestion(&ingestion);
  }

  TestDatabase database_{true};
  Family *family_ = nullptr, *other_ = nullptr;
  int files_ = 0;
};

TEST_F(RunFileTest, later_files_hide_earlier_ones_and_what_was_there) {
  for (uint64_t i = 0; i < 100; ++i) ASSERT_ATOLL_OK(database_.put(family_, test_key(i), "old"));
  ASSERT_ATOLL_OK(take_in({write_file(10, 60, "first"), write_file(50, 80, "second"), write_file(0, 5, "")}));
  EXPECT_EQ(database_.get(family_, test_key(2)), "");
  EXPECT_EQ(database_.get(family_, test_key(7)), "old");
  EXPECT_EQ(database_.get(family_, test_key(49)), "first");
  EXPECT_EQ(database_.get(family_, test_key(50)), "second");
  EXPECT_EQ(database_.get(family_, test_key(80)), "old");
  EXPECT_EQ(database_.count(family_), 95);
}

// An iterator whose current key is always the same.
class OneKey final : public rocksdb::Iterator {
 public:
  explicit OneKey(std::string key) : key_(std::move(key)) {}
  bool Valid() const override { return true; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const rocksdb::Slice & /*target*/) override {}
  void SeekForPrev(const rocksdb::Slice & /*target*/) override {}
  void Next() override {}
  void Prev() override {}
  rocksdb::Slice key() const override { return key_; }
  rocksdb::Slice value() const override { return {}; }
  rocksdb::Status status() const override { return rocksdb::Status::OK(); }

 private:
  std::string key_;
};

TEST_F(RunFileTest, a_damaged_key_is_an_error_and_not_the_end_of_the_file) {
  RunFileCursor cursor(std::make_unique<OneKey>("abc"));  // shorter than RocksDB's own part of a key
  cursor.to_first();
  EXPECT_FALSE(cursor.valid());
  EXPECT_EQ(cursor.status().code(), Code::kCorruption);
}

// At note_drop and note_ddl, the store remembers how long the log is. A root with the ingestion is published
// only when the log from before note_drop is uploaded (gate PUB-G7). The log from after note_ddl is replayed
// only over a root with the ingestion (gate PUB-G8). So no thread may write log bytes between the two calls.
TEST_F(RunFileTest, nothing_is_logged_between_the_notes_of_an_ingestion) {
  std::atomic<bool> done{false};
  std::atomic<uint64_t> written{0};
  std::thread others([&] {
    while (!done) {
      const SharedLock gate(*database_->commit_gate());
      ASSERT_ATOLL_OK(database_.put(other_, "k", "v"));
      ++written;
    }
  });
  for (uint64_t i = 0; i < 30; ++i) {
    const uint64_t before = written;
    ASSERT_ATOLL_OK(take_in({write_file(i, i + 10, "v"), write_file(i + 5, i + 15, "w")}));
    while (written == before) std::this_thread::yield();
  }
  done = true;
  others.join();
  bool between = false;
  for (const std::string &call : database_.store()->recorded()) {
    if (call == "note_drop") between = true;
    if (call == "note_ddl") between = false;
    if (between) {
      EXPECT_FALSE(call.starts_with("wal_appended")) << call;
    }
  }
}

}  // namespace
}  // namespace atoll::lsm
