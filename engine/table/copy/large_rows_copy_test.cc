// Goal:   rows in pieces are copied whole, with their index entries, or not at all. If a row in pieces has
//         the primary key of another row, the message about the duplicate shows that key.
// Method: a table with one BLOB and few rows, some of which are stored in pieces. The rows are not added in
//         the order of their keys.
#include <gtest/gtest.h>

#include <map>

#include "table/copy/test_copy.h"
#include "table/write/large_rows_fixture.h"

namespace atoll::table {
namespace {

using codec::kLargeRowBytes;

class LargeRowsCopyTest : public CopyTest<LargeRowsFixture> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CopyTest::SetUp());
    for (uint32_t i = 0; i < kRows; i++) {
      const uint32_t id = i * 7 % kRows;
      rows_[id] = text(id % 3 == 0 ? kLargeRowBytes + id : id, 'a');
    }
  }

  // Copies into a table of `layout`.
  void begin_copy(std::shared_ptr<const Layout> layout) {
    layout_ = std::move(layout);
    CopyTest::begin_copy();
  }
  Status add(uint32_t id, std::string_view body) { return copy_->add(table_.record(id, body).data()); }
  Status add_rows() {
    for (uint32_t i = 0; i < kRows; i++) ATOLL_RETURN_IF_ERROR(add(i * 7 % kRows, rows_[i * 7 % kRows]));
    return Status::Ok();
  }

  static constexpr uint32_t kRows = 20;  // every third row is stored in pieces
  std::map<uint32_t, std::string> rows_;
};

TEST_F(LargeRowsCopyTest, rows_of_all_sizes_are_copied_as_they_are) {
  begin_copy(table_.layout(database_->shared_family()));
  ASSERT_ATOLL_OK(add_rows());
  ASSERT_ATOLL_OK(finish());
  begin();
  for (const auto &[id, body] : rows_) EXPECT_TRUE(read(id) == body) << id << status_.message();
  EXPECT_GT(pieces(), kRows / 3);
  EXPECT_EQ(budget_->bytes_used, 0);
}

TEST_F(LargeRowsCopyTest, an_index_has_an_entry_for_each_row) {
  begin_copy(table_.indexed_layout(database_->shared_family()));
  ASSERT_ATOLL_OK(add_rows());
  ASSERT_ATOLL_OK(finish());
  EXPECT_EQ(stored(*layout_, 1).size(), kRows);
}

TEST_F(LargeRowsCopyTest, a_row_that_comes_twice_is_named_by_its_primary_key) {
  for (const bool first_is_large : {true, false}) {
    begin_copy(table_.indexed_layout(database_->shared_family()));
    ASSERT_ATOLL_OK(add_rows());
    const uint32_t taken = first_is_large ? 9 : 10;
    Status status = add(taken, text(kLargeRowBytes + 1, 'z'));
    if (status.ok()) status = finish();
    EXPECT_EQ(status.code(), Code::kDuplicate);
    EXPECT_EQ(copy_->duplicate_index(), 0);
    codec::testing::Record shown = table_.record(0, "");
    show_duplicate(&shown);
    EXPECT_EQ(table_.id(shown.data()), taken);
    EXPECT_EQ(stored(*layout_).size(), 0);
  }
}

TEST_F(LargeRowsCopyTest, without_a_primary_key_equal_rows_are_different_ones) {
  begin_copy(table_.numbered_layout(database_->shared_family()));
  for (int i = 0; i < 2; i++) ASSERT_ATOLL_OK(add(1, text(kLargeRowBytes + 1, 'a')));
  ASSERT_ATOLL_OK(finish());
  EXPECT_EQ(copy_->rows(), 2);
  EXPECT_EQ(stored(*layout_).size(), 2 + pieces());
  EXPECT_EQ(pieces() % 2, 0);
}

TEST_F(LargeRowsCopyTest, a_copy_that_is_given_up_leaves_no_piece) {
  begin_copy(table_.layout(database_->shared_family()));
  ASSERT_ATOLL_OK(add_rows());
  copy_.reset();
  EXPECT_EQ(stored(*layout_).size(), 0);
  EXPECT_EQ(budget_->bytes_used, 0);
}

}  // namespace
}  // namespace atoll::table
