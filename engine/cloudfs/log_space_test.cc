// Goal:   LogSpace writes zeros after the end of a log only while commits are small, and removes them when
//         the log is closed. RocksDB recovers every commit from a log that ends with zeros.
// Method: the test looks at the file's size after each step. Then RocksDB opens a database whose log the test
//         has lengthened with zeros, as after a crash.
#include "cloudfs/log_space.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

namespace atoll::cloudfs {
namespace {

namespace fs = std::filesystem;

class LogSpaceTest : public ::testing::Test {
 protected:
  LogSpaceTest() : root_(fs::temp_directory_path() / ("atoll_log_space_" + std::to_string(::getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~LogSpaceTest() override { fs::remove_all(root_); }

  // Appends `bytes` bytes to the log in the same steps as WalWriter.
  void append(LogSpace *space, std::fstream *log, size_t bytes) {
    space->prepare(length_, bytes);
    log->seekp(static_cast<std::streamoff>(length_));
    *log << std::string(bytes, 'x') << std::flush;
    length_ += bytes;
    space->synced(length_);
  }
  std::string path() const { return (root_ / "000001.log").string(); }

  fs::path root_;
  uint64_t length_ = 0;
};

TEST_F(LogSpaceTest, SmallCommitsDoNotChangeTheSize) {
  std::fstream log(path(), std::ios::out | std::ios::binary);
  LogSpace space(path());
  append(&space, &log, 300);
  const uint64_t size = fs::file_size(path());
  EXPECT_GT(size, 100'000U);
  for (int i = 0; i < 100; ++i) append(&space, &log, 300);
  EXPECT_EQ(fs::file_size(path()), size);
  for (int i = 0; i < 1000; ++i) append(&space, &log, 300);
  EXPECT_GT(fs::file_size(path()), size);

  std::ifstream written(path(), std::ios::binary);
  std::string bytes(length_, '\0'), behind(1000, 'z');
  written.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  written.read(behind.data(), static_cast<std::streamsize>(behind.size()));
  EXPECT_EQ(bytes, std::string(length_, 'x'));
  EXPECT_EQ(behind, std::string(behind.size(), '\0'));
  space.cut(length_);
  EXPECT_EQ(fs::file_size(path()), length_);
}

TEST_F(LogSpaceTest, LargeCommitsGetNoZeros) {
  std::fstream log(path(), std::ios::out | std::ios::binary);
  LogSpace space(path());
  for (int i = 0; i < 50; ++i) append(&space, &log, 50'000);
  EXPECT_EQ(fs::file_size(path()), length_);
}

TEST_F(LogSpaceTest, AFileThatCannotBeOpenedIsNoError) {
  LogSpace space((root_ / "absent" / "000001.log").string());
  space.prepare(0, 100);
  space.synced(100);
  space.cut(100);
}

TEST_F(LogSpaceTest, ALogThatEndsWithZerosIsRecoveredWhole) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  rocksdb::WriteOptions synced;
  synced.sync = true;
  const std::string original = (root_ / "db").string();
  std::unique_ptr<rocksdb::DB> database;
  ASSERT_TRUE(rocksdb::DB::Open(options, original, &database).ok());
  for (int i = 0; i < 500; ++i)
    ASSERT_TRUE(database->Put(synced, "key" + std::to_string(i), std::string(i, 'v')).ok());

  for (const int torn : {0, 1, 50}) {  // how many bytes of the last record did not reach the disk
    const fs::path copy = root_ / ("copy" + std::to_string(torn));
    fs::copy(original, copy);
    for (const auto &entry : fs::directory_iterator(copy)) {
      if (entry.path().extension() != ".log") continue;
      const uint64_t size = fs::file_size(entry.path());
      fs::resize_file(entry.path(), size - static_cast<uint64_t>(torn));
      fs::resize_file(entry.path(), size + 300'000);
    }
    std::unique_ptr<rocksdb::DB> recovered;
    ASSERT_TRUE(rocksdb::DB::Open(options, copy.string(), &recovered).ok()) << torn;
    std::string value;
    for (int i = 0; i < (torn == 0 ? 500 : 499); ++i)
      ASSERT_TRUE(recovered->Get({}, "key" + std::to_string(i), &value).ok()) << torn << ' ' << i;
    EXPECT_EQ(recovered->Get({}, "key499", &value).ok(), torn == 0);
  }
}

}  // namespace
}  // namespace atoll::cloudfs
