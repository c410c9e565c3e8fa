// Goal:   verify_files() finds a damaged byte even if the block cache has the block undamaged, reads only the
//         files of the range, and does not report a file that a compaction removed.
// Method: a flipped byte; a compaction between two files; a KILL before and within a file.
#include <algorithm>
#include <fstream>

#include "lsm/test_database.h"

namespace atoll::lsm {
namespace {

bool never() { return false; }

class VerifyFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_ATOLL_OK(database_.open());
    ASSERT_ATOLL_OK(database_->create_family(Compression{}, &family_));
  }
  // Writes 2000 rows of `index` and flushes them to one file.
  void write_file(char index) {
    for (uint64_t i = 0; i < 2000; ++i)
      ASSERT_ATOLL_OK(database_.put(family_, test_key(i, index), "value " + std::to_string(i * 7919)));
    ASSERT_ATOLL_OK(database_->flush(family_));
  }
  void damage_file_of(char index) {
    for (const TableFile &file : database_->table_files()) {
      if (file.family_id != family_->id() || file.smallest_key != test_key(0, index)) continue;
      char name[32];
      std::snprintf(name, sizeof(name), "%06llu.sst", static_cast<unsigned long long>(file.number));
      std::fstream bytes(database_.options.local_dir + "/" + name,
                         std::ios::in | std::ios::out | std::ios::binary);
      ASSERT_TRUE(bytes.is_open()) << name;
      bytes.seekg(4000);
      const char byte = static_cast<char>(bytes.get() ^ 0x10);
      bytes.seekp(4000);
      bytes.put(byte);
    }
  }
  Status verify(char index, const std::function<bool()> &is_cancelled = never) {
    return database_->verify_files(family_, test_key(0, index), test_key(0, static_cast<char>(index + 1)),
                                   is_cancelled);
  }

  TestDatabase database_{false};
  Family *family_ = nullptr;
};

TEST_F(VerifyFilesTest, a_flipped_byte_is_found_behind_the_block_cache_and_only_in_its_range) {
  write_file(1);
  write_file(3);
  ASSERT_EQ(database_.count(family_), 4000);  // reads all blocks into the block cache
  ASSERT_ATOLL_OK(verify(1));
  damage_file_of(1);
  ASSERT_EQ(database_.count(family_), 4000);
  const Status damaged = verify(1);
  EXPECT_EQ(damaged.code(), Code::kCorruption);
  EXPECT_NE(std::string(damaged.message()).find(".sst"), std::string::npos) << damaged.message();
  ASSERT_ATOLL_OK(verify(3));
}

TEST_F(VerifyFilesTest, a_file_that_a_compaction_removed_is_no_damage) {
  write_file(1);
  write_file(1);
  ASSERT_ATOLL_OK(verify(1, [this] {
    EXPECT_TRUE(database_->compact(family_, {}, {}).ok());
    return false;
  }));
}

TEST_F(VerifyFilesTest, it_ends_when_it_is_cancelled) {
  write_file(1);
  EXPECT_EQ(verify(1, [] { return true; }).code(), Code::kInterrupted);
}

TEST_F(VerifyFilesTest, it_ends_within_a_file) {
  constexpr int kReads = 8;
  const std::string value(64 << 10, 'v');
  for (uint64_t i = 0; i < kReads * 32; ++i)  // 32 rows of 64 KiB have 2 MiB, the size of one read
    ASSERT_ATOLL_OK(database_.put(family_, test_key(i, 1), value));
  ASSERT_ATOLL_OK(database_->flush(family_));
  const std::vector<TableFile> files = database_->table_files();
  ASSERT_EQ(std::count_if(files.begin(), files.end(),
                          [&](const TableFile &file) { return file.family_id == family_->id(); }),
            1);
  int asked = 0;
  ASSERT_ATOLL_OK(verify(1, [&] { return ++asked, false; }));
  EXPECT_GE(asked, kReads);
  int left = asked / 2;
  int asked_after = 0;
  const Status status = verify(1, [&] { return left == 0 ? ++asked_after > 0 : left-- == 0; });
  EXPECT_EQ(status.code(), Code::kInterrupted);
  EXPECT_LE(asked_after, 2) << "it went on reading";
}

}  // namespace
}  // namespace atoll::lsm
