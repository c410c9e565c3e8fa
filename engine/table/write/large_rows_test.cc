// Goal:   a row in pieces is read as it was written. An update or a removal replaces or removes all its
//         pieces. A missing or changed piece is reported as corruption.
// Method: a table with one BLOB; sizes around the limit and around multiples of a piece. The test changes
//         pieces directly in RocksDB. (The check of CHECK TABLE finds a superfluous piece.)
#include "table/write/large_rows.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "table/write/large_rows_fixture.h"

namespace atoll::table {
namespace {

using codec::kLargeRowBytes;
using codec::kRowPieceBytes;
using LargeRowsTest = LargeRowsFixture;

TEST_F(LargeRowsTest, rows_of_any_size_are_read_as_they_were_written) {
  const size_t sizes[] = {0,
                          kRowPieceBytes,
                          kLargeRowBytes - 100,
                          kLargeRowBytes,
                          kLargeRowBytes + 1,
                          17 * kRowPieceBytes,
                          40 * kRowPieceBytes + 12345};
  uint32_t id = 0;
  for (const size_t size : sizes) ASSERT_ATOLL_OK(insert(id++, text(size, 'a')));
  for (int round = 0; round < 2; round++) {  // reads own writes first, then committed rows
    id = 0;
    for (const size_t size : sizes) EXPECT_TRUE(read(id++) == text(size, 'a')) << size << status_.message();
    if (round == 0) commit();
  }
  EXPECT_GT(pieces(), 40);
}

TEST_F(LargeRowsTest, a_change_leaves_no_piece_of_the_row_before) {
  const size_t few = kLargeRowBytes + 1, many = 2 * kLargeRowBytes;
  ASSERT_ATOLL_OK(insert(1, text(many, 'a')));
  commit();
  const uint64_t all = pieces();
  ASSERT_ATOLL_OK(update(1, text(few, 'b')));
  commit();
  EXPECT_LT(pieces(), all);
  EXPECT_TRUE(read(1) == text(few, 'b'));
  ASSERT_ATOLL_OK(update(1, "small"));
  commit();
  EXPECT_EQ(pieces(), 0);
  EXPECT_EQ(read(1), "small");
  ASSERT_ATOLL_OK(update(1, text(many, 'c')));
  commit();
  EXPECT_EQ(pieces(), all);
  EXPECT_TRUE(read(1) == text(many, 'c'));
  ASSERT_ATOLL_OK(remove(1));
  commit();
  EXPECT_EQ(pieces(), 0);
  EXPECT_EQ(read(1), std::nullopt);
}

TEST_F(LargeRowsTest, what_is_rolled_back_leaves_the_row_as_it_was) {
  ASSERT_ATOLL_OK(insert(1, text(2 * kLargeRowBytes, 'a')));
  commit();
  const uint64_t all = pieces();
  ASSERT_ATOLL_OK(update(1, text(kLargeRowBytes + 1, 'b')));
  ASSERT_ATOLL_OK(insert(2, text(kLargeRowBytes + 1, 'c')));
  session_->cursor.close();
  session_->transaction()->rollback();
  begin();
  EXPECT_EQ(pieces(), all);
  EXPECT_TRUE(read(1) == text(2 * kLargeRowBytes, 'a'));
  EXPECT_EQ(read(2), std::nullopt);
}

TEST_F(LargeRowsTest, a_snapshot_shows_the_pieces_of_its_time) {
  ASSERT_ATOLL_OK(insert(1, text(2 * kLargeRowBytes, 'a')));
  commit();
  PlainSession other(layout_, table_.record_length(), manager_.get());
  other.transaction()->make_snapshot();
  ASSERT_ATOLL_OK(update(1, text(2 * kLargeRowBytes, 'b')));
  commit();
  RowCursor::Found found = RowCursor::Found::kNone;
  other.cursor.begin_index(0);
  ASSERT_ATOLL_OK(other.cursor.get(key(1), false, other.record(), &found));
  ASSERT_EQ(found, RowCursor::Found::kRow);
  EXPECT_TRUE(table_.body(other.record()) == text(2 * kLargeRowBytes, 'a'));
  EXPECT_TRUE(read(1) == text(2 * kLargeRowBytes, 'b'));
}

TEST_F(LargeRowsTest, pieces_that_are_not_the_rows_are_corruption) {
  for (uint32_t id = 1; id <= 2; id++) ASSERT_ATOLL_OK(insert(id, text(kLargeRowBytes + 1, 'a')));
  commit();
  lsm::Family *family = layout_->family();
  ASSERT_ATOLL_OK(database_.remove(family, piece_key(1, 2)));
  ASSERT_ATOLL_OK(database_.put(family, piece_key(2, 2), text(kRowPieceBytes, 'z')));
  for (uint32_t id = 1; id <= 2; id++) {
    EXPECT_FALSE(read(id));
    EXPECT_EQ(status_.code(), Code::kCorruption) << id;
  }
}

TEST_F(LargeRowsTest, a_duplicate_writes_no_piece) {
  ASSERT_ATOLL_OK(insert(1, "first"));
  commit();
  EXPECT_EQ(insert(1, text(kLargeRowBytes + 1, 'a')).code(), Code::kDuplicate);
  commit();
  EXPECT_EQ(pieces(), 0);
  EXPECT_EQ(read(1), "first");
}

// Stands for the change log of an ALTER that writes the whole table anew: it demands that large rows are
// stored whole (ChangeLog::needs_whole_rows).
class WholeRowsLog final : public ChangeLog {
 public:
  Status log(txn::Transaction *, const RowImage &, const RowImage &) override { return Status::Ok(); }
  bool needs_whole_rows() const override { return true; }
};

TEST_F(LargeRowsTest, a_row_is_stored_whole_while_the_log_needs_it_whole) {
  ASSERT_ATOLL_OK(insert(1, text(kLargeRowBytes + 1, 'a')));
  commit();
  WholeRowsLog log;
  session_->writer.set_log(&log);
  ASSERT_ATOLL_OK(update(1, text(kLargeRowBytes + 2, 'b')));
  ASSERT_ATOLL_OK(insert(2, text(kLargeRowBytes + 1, 'c')));
  commit();
  EXPECT_EQ(pieces(), 0);
  EXPECT_TRUE(read(1) == text(kLargeRowBytes + 2, 'b'));
  EXPECT_TRUE(read(2) == text(kLargeRowBytes + 1, 'c'));
}

TEST_F(LargeRowsTest, an_update_to_the_same_value_writes_no_piece) {
  ASSERT_ATOLL_OK(insert(1, text(kLargeRowBytes + 1, 'a')));
  commit();
  ASSERT_ATOLL_OK(update(1, text(kLargeRowBytes + 1, 'a')));
  EXPECT_EQ(session_->updated, RowWriter::Updated::kSame);
  EXPECT_EQ(session_->transaction()->write_count(), 0);
}

TEST_F(LargeRowsTest, rows_beyond_the_memory_of_a_batch_are_read_when_their_turn_comes) {
  constexpr uint32_t kRows = 7;
  const size_t bytes = kLargeRowBytes - 100;
  static_assert(kRows * (kLargeRowBytes - 100) > txn::Transaction::kMultiGetBytesMax);
  for (uint32_t id = 0; id < kRows; id++) ASSERT_ATOLL_OK(insert(id, text(bytes, static_cast<char>(id))));
  commit();
  RowCursor &cursor = session_->cursor;
  RowCursor::Found found = RowCursor::Found::kNone;
  cursor.begin_index(0);
  ASSERT_ATOLL_OK(cursor.begin_ranges(kRows, &found));
  cursor.begin_batch();
  for (uint32_t id = 0; id < kRows; id++) cursor.add_row(key(id));
  ASSERT_ATOLL_OK(cursor.look_up(&found));
  EXPECT_FALSE(cursor.batch().unread.empty());
  for (uint32_t id = 0; id < kRows; id++) {
    ASSERT_ATOLL_OK(cursor.next_of_batch(session_->record(), &found));
    ASSERT_EQ(found, RowCursor::Found::kRow);
    EXPECT_TRUE(table_.body(session_->record()) == text(bytes, static_cast<char>(id))) << id;
  }
}

TEST_F(LargeRowsTest, a_condition_sees_the_whole_row) {
  class EqualBody final : public PlainSession {
   public:
    using PlainSession::PlainSession;
    std::unique_ptr<codec::Predicate> condition;
    const codec::Predicate *predicate() override { return condition.get(); }
  };
  ASSERT_ATOLL_OK(insert(1, text(kLargeRowBytes + 1, 'a')));
  commit();
  std::string stored;
  ASSERT_TRUE(layout_->family()->get(rocksdb::ReadOptions(), key(1), &stored).ok());
  EqualBody session(layout_, table_.record_length(), manager_.get());
  RowFilter filter(session.open_table, &session);
  for (const char first : {'a', 'b'}) {
    session.condition =
        codec::Predicate::compare(1, codec::CompareOp::kEqual, {.bytes = text(kLargeRowBytes + 1, first)});
    bool passes = false;
    ASSERT_ATOLL_OK(filter.evaluate(key(1), stored, &passes));
    EXPECT_EQ(passes, first == 'a');
  }
}

}  // namespace
}  // namespace atoll::table
