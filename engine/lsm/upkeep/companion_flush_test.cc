// Goal:   when one family's memtable is full, another family with a few rows is flushed with it, and a family
//         with many rows is not.
// Method: families of a Database with small memtables; RocksDB's properties tell which rows are still in
//         memory.
#include "lsm/upkeep/companion_flush.h"

#include "lsm/test_database.h"
#include "lsm/raw.h"

namespace atoll::lsm {
namespace {

constexpr uint64_t kMemtableBytes = 4 << 20;  // one memtable: half of the budget that SetUp() sets
constexpr uint64_t kValueBytes = 100 << 10;

class CompanionFlushTest : public testing::Test {
 protected:
  void SetUp() override {
    database_.options.memtable_bytes = 2 * kMemtableBytes;  // of all families together
    ASSERT_ATOLL_OK(database_.open());
    ASSERT_ATOLL_OK(database_->create_family(Compression{}, &large_));
    ASSERT_ATOLL_OK(database_->create_family(Compression{}, &other_));
  }

  void write(Family *family, uint64_t bytes) {
    for (uint64_t written = 0; written < bytes; written += kValueBytes)
      ASSERT_ATOLL_OK(database_.put(family, test_key(next_key_++), std::string(kValueBytes, 'v')));
  }

  uint64_t property(Family *family, const std::string &name) {
    uint64_t value = 0;
    Raw::of(database_, Side::kMain)->GetIntProperty(family->handle(), name, &value);
    return value;
  }

  uint64_t rows_in_memory(Family *family) {
    return property(family, rocksdb::DB::Properties::kNumEntriesActiveMemTable);
  }

  TestDatabase database_{true};
  Family *large_ = nullptr;
  Family *other_ = nullptr;
  uint64_t next_key_ = 0;
};

TEST_F(CompanionFlushTest, a_few_rows_go_to_disk_with_a_full_memtable) {
  ASSERT_ATOLL_OK(database_.put(other_, "k", "v"));
  write(large_, 2 * kMemtableBytes);
  EXPECT_TRUE(TestDatabase::wait_for([&] { return rows_in_memory(other_) == 0; }));
  EXPECT_EQ(database_.get(other_, "k"), "v");
}

TEST_F(CompanionFlushTest, many_rows_stay_until_there_are_enough_for_a_file) {
  write(other_, kMemtableBytes * 3 / 8);  // CompanionFlush's limit is a quarter of a memtable
  const uint64_t rows = rows_in_memory(other_);
  write(large_, kMemtableBytes);
  ASSERT_TRUE(TestDatabase::wait_for(
      [&] { return property(large_, rocksdb::DB::Properties::kTotalSstFilesSize) > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(rows_in_memory(other_), rows);
}

}  // namespace
}  // namespace atoll::lsm
