// Goal:   RocksDB reports a table file with a damaged or forged footer as Corruption. Such a file does not
//         end the process.
// Method: the test puts files with chosen footers into the fake bucket. RocksDB's own reader opens them
//         through the file system.
#include "cloudfs/table_footer.h"

#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "base/bytes.h"
#include "bridge/fake_objstore.h"
#include "cloudfs/cloud_file_system.h"

namespace atoll::cloudfs {
namespace {

rocksdb::Options options_of(rocksdb::Env *env) {
  rocksdb::BlockBasedTableOptions table;
  table.checksum = rocksdb::kXXH3;
  table.format_version = 7;
  rocksdb::Options options;
  options.env = env;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

class TableFooterTest : public ::testing::Test {
 protected:
  TableFooterTest()
      : root_(std::filesystem::temp_directory_path() / ("atoll_footer_" + std::to_string(::getpid()))),
        directory_((root_ / "db").string()),
        store_((prepare(), (root_ / "bucket").string())),
        files_(std::make_shared<CloudFileSystem>(rocksdb::FileSystem::Default(), directory_, &store_)),
        env_(rocksdb::NewCompositeEnv(files_)) {}
  ~TableFooterTest() override { std::filesystem::remove_all(root_); }

  bool prepare() {
    std::filesystem::remove_all(root_);
    return std::filesystem::create_directories(root_ / "db");
  }

  // The bytes of a table file with some rows.
  std::string table() const {
    const std::string path = (root_ / "plain.sst").string();
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_of(rocksdb::Env::Default()));
    EXPECT_TRUE(writer.Open(path).ok());
    for (char key = 'a'; key <= 'z'; ++key) EXPECT_TRUE(writer.Put(std::string(1, key), "value").ok());
    EXPECT_TRUE(writer.Finish().ok());
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // The status with which RocksDB opens and verifies a table file of these bytes.
  rocksdb::Status opened(const std::string &bytes) {
    const std::string path = (root_ / "given.sst").string();
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_EQ(atoll_store_add_file(&store_, ++number_, path.c_str()).code, 0);
    rocksdb::SstFileReader reader(options_of(env_.get()));
    rocksdb::Status status = reader.Open(directory_ + "/" + table_file_name(number_));
    return status.ok() ? reader.VerifyChecksum() : status;
  }

  const std::filesystem::path root_;
  const std::string directory_;
  atoll_store store_;
  const std::shared_ptr<CloudFileSystem> files_;
  const std::unique_ptr<rocksdb::Env> env_;
  uint64_t number_ = 0;
};

// A file with a footer of format version 5, which has no checksum. The footer names a metaindex block of a
// terabyte.
std::string forged_file() {
  std::string bytes(1 + kTableFooterBytes, '\0');
  char *const footer = bytes.data() + 1;
  footer[0] = rocksdb::kCRC32c;
  const char terabyte[] = {'\x80', '\x80', '\x80', '\x80', '\x80', '\x20'};
  std::copy(std::begin(terabyte), std::end(terabyte),
            footer + 2);  // the metaindex block's size; footer[1] is the block's offset, which is 0
  store_le<uint32_t>(footer + 41, 5);
  store_le<uint64_t>(footer + 45, 0x88e241b785f4cff7);
  return bytes;
}

TEST_F(TableFooterTest, a_forged_file_of_54_bytes_does_not_end_the_process) {
  const rocksdb::Status status = opened(forged_file());
  EXPECT_TRUE(status.IsCorruption()) << status.ToString();
  EXPECT_NE(status.ToString().find("000001.sst"), std::string::npos) << status.ToString();
  EXPECT_EQ(store_.count("refetch 1"), 1u) << "the copy of this machine may be what is damaged";
}

TEST_F(TableFooterTest, every_flipped_bit_of_a_footer_is_corruption) {
  const std::string good = table();
  ASSERT_TRUE(opened(good).ok());
  for (size_t bit = 0; bit < kTableFooterBytes * 8; ++bit) {
    std::string bytes = good;
    char &byte = bytes[bytes.size() - kTableFooterBytes + bit / 8];
    byte = static_cast<char>(byte ^ (1 << (bit % 8)));
    const rocksdb::Status status = opened(bytes);
    EXPECT_TRUE(status.IsCorruption()) << "bit " << bit << ": " << status.ToString();
  }
}

TEST_F(TableFooterTest, files_that_are_too_short_are_corruption) {
  const std::string good = table();
  for (size_t bytes = 0; bytes <= kTableFooterBytes + 8; ++bytes) {
    const rocksdb::Status status = opened(good.substr(good.size() - bytes));
    EXPECT_TRUE(status.IsCorruption()) << bytes << " bytes: " << status.ToString();
  }
}

TEST(FooterTest, what_atoll_does_not_write_is_named) {
  std::string footer = forged_file().substr(1);
  const auto problem = [&footer] {
    const char *found = problem_of_footer(footer, 1000);
    return std::string(found == nullptr ? "" : found);
  };
  EXPECT_NE(problem().find("format"), std::string::npos);
  store_le<uint32_t>(footer.data() + 41, 7);
  EXPECT_NE(problem().find("checksum"), std::string::npos);
  footer[0] = rocksdb::kXXH3;
  store_le<uint32_t>(footer.data() + 13, 1000 - 5 - kTableFooterBytes);
  EXPECT_EQ(problem(), "");
  store_le<uint32_t>(footer.data() + 13, 1000 - 5 - kTableFooterBytes + 1);
  EXPECT_NE(problem().find("larger"), std::string::npos);
  footer.back() = 0;
  EXPECT_NE(problem().find("magic"), std::string::npos);
}

}  // namespace
}  // namespace atoll::cloudfs
