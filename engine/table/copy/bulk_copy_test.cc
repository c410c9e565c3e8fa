// Goal:   a copy has all rows with their index entries, or none. This holds in the shared family and in a
//         family of its own. After a duplicate the copy names the index and shows the row.
// Method: a real database; the rows come in an order that differs from the order of each index.
#include "table/copy/bulk_copy.h"

#include <gtest/gtest.h>

#include <set>

#include "table/copy/test_copy.h"

namespace atoll::table {
namespace {

constexpr uint32_t kFewRows = 100;
constexpr uint32_t kManyRows = 40000;  // together larger than kSmallTableBytes

class BulkCopyTest : public CopyTest<StoredTableTest<TestTable>> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CopyTest::SetUp());
    begin_copy();
  }

  // The i-th of `count` rows. Rows that are added one after the other are far apart in each unique index.
  static Row row_of(uint32_t i, uint32_t count) {
    const uint32_t id = static_cast<uint32_t>((uint64_t{i} * 7919) % count);
    const std::optional<uint32_t> unique = id % 10 == 0 ? std::nullopt : std::optional(count - id);
    return {id, id % 7, unique};
  }
  Status add(const Row &row) { return copy_->add(table_.record(row).data()); }
  Status add_rows(uint32_t count) {
    for (uint32_t i = 0; i < count; i++) ATOLL_RETURN_IF_ERROR(add(row_of(i, count)));
    return Status::Ok();
  }
  std::set<std::string> stored() { return StoredTableTest::stored(*layout_); }
  std::set<std::string> expected(uint32_t count) {
    std::set<std::string> keys;
    for (uint32_t i = 0; i < count; i++)
      for (size_t index = 0; index < kIndexes; index++)
        keys.insert(table_.key(*layout_, index, row_of(i, count), 2));
    return keys;
  }
  Row shown_duplicate() {
    codec::testing::Record record = table_.record({0, std::nullopt, std::nullopt});
    show_duplicate(&record);
    return table_.row(record.data());
  }
};

TEST_F(BulkCopyTest, a_small_table_stays_in_the_shared_family) {
  ASSERT_ATOLL_OK(add_rows(kFewRows));
  EXPECT_EQ(stored().size(), 0);
  ASSERT_ATOLL_OK(finish());
  EXPECT_EQ(layout_->family(), database_->shared_family());
  EXPECT_EQ(copy_->rows(), kFewRows);
  EXPECT_EQ(stored(), expected(kFewRows));
  copy_.reset();
  EXPECT_EQ(budget_->bytes_used, 0);
}

TEST_F(BulkCopyTest, a_larger_table_gets_a_family_of_its_own) {
  ASSERT_ATOLL_OK(add_rows(kManyRows));
  EXPECT_NE(layout_->family(), database_->shared_family());
  EXPECT_EQ(stored().size(), 0);
  ASSERT_ATOLL_OK(finish());
  EXPECT_EQ(copy_->rows(), kManyRows);
  EXPECT_EQ(stored(), expected(kManyRows));
  copy_.reset();
  EXPECT_EQ(budget_->bytes_used, 0);
}

TEST_F(BulkCopyTest, a_copy_of_no_rows_leaves_the_table_where_it_is) {
  ASSERT_ATOLL_OK(finish());
  EXPECT_EQ(copy_->rows(), 0);
  EXPECT_EQ(stored().size(), 0);
  EXPECT_EQ(layout_->family(), database_->shared_family());
}

TEST_F(BulkCopyTest, a_copy_that_is_given_up_leaves_nothing) {
  ASSERT_ATOLL_OK(add_rows(kManyRows));
  copy_.reset();
  EXPECT_EQ(stored().size(), 0);
  EXPECT_EQ(budget_->bytes_used, 0);
}

TEST_F(BulkCopyTest, a_copy_that_is_interrupted_leaves_nothing) {
  ASSERT_ATOLL_OK(add_rows(kManyRows));
  EXPECT_EQ(copy_->finish([](double) { return false; }, &layout_).code(), Code::kInterrupted);
  EXPECT_EQ(stored().size(), 0);
}

TEST_F(BulkCopyTest, names_the_row_whose_primary_key_is_taken) {
  for (const uint32_t count : {kFewRows, kManyRows}) {
    begin_copy();
    const Row taken = row_of(3, count), twin{taken.id, taken.a, count + 1};
    Status status = add_rows(count);
    if (status.ok()) status = add(twin);
    if (status.ok()) status = finish();
    EXPECT_EQ(status.code(), Code::kDuplicate);
    EXPECT_EQ(copy_->duplicate_index(), static_cast<int>(kPrimary));
    EXPECT_EQ(shown_duplicate().id, taken.id);
    EXPECT_EQ(stored().size(), 0);
  }
}

TEST_F(BulkCopyTest, names_the_unique_key_that_is_taken_and_takes_nulls_for_different) {
  for (const uint32_t count : {kFewRows, kManyRows}) {
    begin_copy();
    const Row taken = row_of(3, count), twin{count, std::nullopt, taken.u};
    ASSERT_TRUE(taken.u);
    Status status = add_rows(count);
    if (status.ok()) status = add(twin);
    if (status.ok()) status = finish();
    EXPECT_EQ(status.code(), Code::kDuplicate);
    EXPECT_EQ(copy_->duplicate_index(), static_cast<int>(kUnique));
    EXPECT_EQ(shown_duplicate().u, taken.u);
    EXPECT_EQ(stored().size(), 0);
  }
}

}  // namespace
}  // namespace atoll::table
