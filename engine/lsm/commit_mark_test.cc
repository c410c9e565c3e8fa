// Goal:   a mark has the bytes that the reader (crates/objstore/src/protocol/wal/marks.rs) expects. In a
//         batch it follows the changes of its commit, and RocksDB does not count it as a change.
// Method: expected bytes written by hand; a handler that lists the changes and marks of a batch.
#include "lsm/commit_mark.h"

#include <gtest/gtest.h>
#include <rocksdb/write_batch.h>

#include <vector>

namespace atoll::lsm {
namespace {

using namespace std::string_literals;

class Marks final : public rocksdb::WriteBatch::Handler {
 public:
  std::vector<std::string> seen;
  rocksdb::Status PutCF(uint32_t, const rocksdb::Slice &key, const rocksdb::Slice &) override {
    seen.push_back(key.ToString());
    return {};
  }
  void LogData(const rocksdb::Slice &blob) override {
    EXPECT_EQ(blob.size(), 8u);
    EXPECT_EQ(blob[0], 0x10);
    seen.emplace_back("mark");
  }
};

TEST(CommitMarkTest, a_mark_has_the_bytes_of_the_format) {
  CommitMark mark;
  EXPECT_EQ(encode(mark, 1), "\x10\x01\0\0\0\0\0\0"s);
  mark.is_recovered = true;
  EXPECT_EQ(encode(mark, 0xff'ffff'ffff'ffff), "\x14\xff\xff\xff\xff\xff\xff\xff"s);
  mark = {Gtid{1, 300, 128}, BinlogPosition{2, 1000}, false};
  EXPECT_EQ(encode(mark, 0x01'0203'0405'0607),
            "\x13\x07\x06\x05\x04\x03\x02\x01\x01\xac\x02\x80\x01\x02\xe8\x07"s);
  mark = {Gtid{UINT32_MAX, UINT32_MAX, UINT64_MAX}, BinlogPosition{UINT64_MAX, UINT64_MAX}, true};
  EXPECT_EQ(encode(mark, UINT64_MAX).size(), 48u);
}

TEST(CommitMarkTest, a_mark_stands_behind_its_changes_and_is_none) {
  rocksdb::WriteBatch batch;
  ASSERT_TRUE(batch.Put("a", "1").ok());
  ASSERT_TRUE(put_mark(&batch, {}).ok());
  ASSERT_TRUE(batch.Put("b", "2").ok());
  ASSERT_TRUE(put_mark(&batch, {}).ok());
  EXPECT_EQ(batch.Count(), 2u);
  Marks marks;
  ASSERT_TRUE(batch.Iterate(&marks).ok());
  EXPECT_EQ(marks.seen, (std::vector<std::string>{"a", "mark", "b", "mark"}));
}

}  // namespace
}  // namespace atoll::lsm
