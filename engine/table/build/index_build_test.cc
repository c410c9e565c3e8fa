// Goal:   a build fills indexes with the entries of all rows of its snapshot, or moves a table with all its
//         indexes. A build that fails changes nothing. After a duplicate the build names the index and shows
//         the row.
// Method: rows without entries in a real database. The entries are made by the threads of the scan, or by the
//         thread of the build, as virtual columns require.
#include "table/build/index_build.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "table/build/test_view.h"
#include "table/testing/stored_table.h"

namespace atoll::table {
namespace {

constexpr uint32_t kRows = 20000;

class IndexBuildTest : public StoredTableTest<TestTable, ::testing::TestWithParam<bool>> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(StoredTableTest::SetUp());
    view_ = std::make_unique<TestView>(layout_, std::vector{kSecondary, kUnique}, table_.record_length());
    view_->makes_entries = GetParam();
    for (uint32_t id = 0; id < kRows; id++) put_row(row_of(id));
  }

  static Row row_of(uint32_t id) {
    return {id, id % 7, id % 10 == 0 ? std::nullopt : std::optional(kRows - id)};
  }
  Status build(std::shared_ptr<const Layout> altered, std::vector<size_t> indexes) {
    const rocksdb::Snapshot *snapshot = database_->take_snapshot(lsm::Side::kMain);
    put_row(row_of(kRows));  // the build must not see it, because its snapshot is older
    IndexBuild build({layout_, std::move(altered), std::move(indexes), snapshot},
                     {database_.operator->(), database_.operator->(), 16 << 20, 2}, view_.get());
    Status status = build.run();
    duplicate_index_ = build.duplicate_index();
    database_->release_snapshot(lsm::Side::kMain, snapshot);
    return status;
  }
  std::set<std::string> expected(const Layout &layout, size_t index) {
    std::set<std::string> keys;
    for (uint32_t id = 0; id < kRows; id++) keys.insert(table_.key(layout, index, row_of(id), 2));
    return keys;
  }

  std::unique_ptr<TestView> view_;
  size_t duplicate_index_ = IndexBuild::kNoIndex;
};

TEST_P(IndexBuildTest, fills_indexes_from_the_rows_of_its_snapshot) {
  ASSERT_ATOLL_OK(build(layout_, {kSecondary, kUnique}));
  for (const size_t index : {kSecondary, kUnique})
    EXPECT_EQ(stored(*layout_, index), expected(*layout_, index));
  EXPECT_EQ(view_->computed, GetParam() ? kRows : 0);
}

TEST_P(IndexBuildTest, moves_the_table_with_all_its_indexes) {
  std::shared_ptr<const Layout> moved;
  ASSERT_ATOLL_OK(move_to_own_family(&moved));
  ASSERT_ATOLL_OK(build(moved, {kPrimary, kSecondary, kUnique}));
  for (size_t index = 0; index < kIndexes; index++) EXPECT_EQ(stored(*moved, index), expected(*moved, index));
  EXPECT_EQ(stored(*layout_, kPrimary).size(), kRows + 1);
}

TEST_P(IndexBuildTest, shows_the_row_whose_unique_key_another_has) {
  put_row({1, 1, row_of(2).u});
  EXPECT_EQ(build(layout_, {kSecondary, kUnique}).code(), Code::kDuplicate);
  EXPECT_EQ(duplicate_index_, kUnique);
  EXPECT_EQ(table_.row(view_->record()).u, row_of(2).u);
  for (const size_t index : {kSecondary, kUnique}) EXPECT_EQ(stored(*layout_, index).size(), 0);
}

TEST_P(IndexBuildTest, leaves_nothing_when_it_is_unwanted) {
  view_->unwanted = true;
  EXPECT_EQ(build(layout_, {kSecondary, kUnique}).code(), Code::kInterrupted);
  EXPECT_EQ(duplicate_index_, IndexBuild::kNoIndex);
  for (const size_t index : {kSecondary, kUnique}) EXPECT_EQ(stored(*layout_, index).size(), 0);
}

// The row is in the middle of the table, so that both threads of the scan have made entries before.
TEST_P(IndexBuildTest, a_row_that_cannot_be_read_ends_the_build) {
  const std::string key = table_.key(*layout_, kPrimary, row_of(kRows / 2), 1);
  ASSERT_ATOLL_OK(database_.put(layout_->family(), key, "\x01"));
  EXPECT_EQ(build(layout_, {kSecondary, kUnique}).code(), Code::kCorruption);
  EXPECT_EQ(duplicate_index_, IndexBuild::kNoIndex);
  for (const size_t index : {kSecondary, kUnique}) EXPECT_EQ(stored(*layout_, index).size(), 0);
}

// The threads of the scan compute no virtual column, so there the error cannot occur.
TEST_P(IndexBuildTest, a_virtual_column_that_cannot_be_computed_ends_the_build) {
  view_->computes = Status(Code::kInvalid, "division by zero");
  const Status status = build(layout_, {kSecondary, kUnique});
  EXPECT_STREQ(status.message(), GetParam() ? "division by zero" : "");
  EXPECT_EQ(view_->computed, GetParam() ? 1 : 0);
  const size_t entries = GetParam() ? 0 : kRows;
  for (const size_t index : {kSecondary, kUnique}) EXPECT_EQ(stored(*layout_, index).size(), entries);
}

TEST_P(IndexBuildTest, the_build_of_an_empty_table_makes_empty_indexes) {
  for (uint32_t id = 0; id < kRows; id++)
    ASSERT_ATOLL_OK(database_.remove(layout_->family(), table_.key(*layout_, kPrimary, row_of(id), 1)));
  ASSERT_ATOLL_OK(build(layout_, {kSecondary, kUnique}));
  for (const size_t index : {kSecondary, kUnique}) EXPECT_EQ(stored(*layout_, index).size(), 0);
  EXPECT_EQ(view_->computed, 0);
}

INSTANTIATE_TEST_SUITE_P(by, IndexBuildTest, ::testing::Values(false, true),
                         [](const auto &info) { return info.param ? "one_thread" : "threads_of_the_scan"; });

}  // namespace
}  // namespace atoll::table
