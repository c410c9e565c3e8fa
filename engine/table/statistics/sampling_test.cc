// Goal:   a sample gives the number of rows per value, exactly for small tables and nearly for large ones.
//         The text that the catalog stores is decoded again, and other texts are refused.
// Method: tables whose values have known frequencies, in files; random statistics. The seed is printed.
#include "table/statistics/sampling.h"

#include <gtest/gtest.h>

#include "table/testing/stored_table.h"

namespace atoll::table {
namespace {

constexpr uint64_t kEverything = 1 << 20;

class SamplingTest : public StoredTableTest<TestTable> {
 protected:
  // Writes `rows` rows. Each value of `a` is in `per_value` of them.
  void fill(uint32_t rows, uint32_t per_value) {
    for (uint32_t id = 0; id < rows; id++) put({id, id / per_value, id});
    ASSERT_ATOLL_OK(database_->flush(nullptr));
  }
  Status take(uint64_t entries_max, bool is_cancelled = false) {
    statistics_ = {};
    return sample(
        *layout_, database_.operator->(), entries_max, [is_cancelled] { return is_cancelled; }, &statistics_);
  }

  TableStatistics statistics_;
};

TEST_F(SamplingTest, a_small_table_is_read_whole) {
  fill(1000, 20);
  ASSERT_ATOLL_OK(take(kEverything));
  EXPECT_EQ(statistics_.rows, 1000);
  // For each index: the rows per value of its own part, then the rows per value of that part with the primary
  // key.
  const std::vector<std::vector<uint64_t>> expected{{1}, {20, 1}, {1, 1}};
  EXPECT_EQ(statistics_.records_per_key, expected);
}

TEST_F(SamplingTest, an_empty_table_has_no_rows_and_one_row_for_each_value) {
  ASSERT_ATOLL_OK(take(kEverything));
  EXPECT_EQ(statistics_.rows, 0);
  const std::vector<std::vector<uint64_t>> expected{{1}, {1, 1}, {1, 1}};
  EXPECT_EQ(statistics_.records_per_key, expected);
}

TEST_F(SamplingTest, a_large_table_is_sampled_in_pieces) {
  fill(60000, 20);
  ASSERT_ATOLL_OK(take(6000));
  EXPECT_EQ(statistics_.rows, -1);
  ASSERT_EQ(statistics_.records_per_key.size(), kIndexes);
  EXPECT_NEAR(static_cast<double>(statistics_.records_per_key[kSecondary][0]), 20, 2);
  EXPECT_EQ(statistics_.records_per_key[kUnique][0], 1);
}

TEST_F(SamplingTest, ends_when_it_is_cancelled) {
  fill(100, 20);
  EXPECT_EQ(take(kEverything, /*is_cancelled=*/true).code(), Code::kInterrupted);
}

TEST(TableStatisticsTest, what_is_stored_is_read_back_and_what_is_cut_is_refused) {
  codec::testing::Random random(codec::testing::seed_of_this_run());
  for (int round = 0; round < 1000; round++) {
    TableStatistics written;
    written.rows = static_cast<int64_t>(random.bits());
    written.sampled_rows = static_cast<int64_t>(random.bits());
    written.records_per_key.resize(random.below(4));
    for (std::vector<uint64_t> &index : written.records_per_key)
      for (size_t parts = random.below(4); parts > 0; parts--) index.push_back(random.bits());
    const std::string text = encode(written);
    TableStatistics read;
    ASSERT_TRUE(decode(text, &read)) << text;
    EXPECT_EQ(read.rows, written.rows);
    EXPECT_EQ(read.sampled_rows, written.sampled_rows);
    EXPECT_EQ(read.records_per_key, written.records_per_key);
    // A text that is cut before its last comma is refused, because the last number may be incomplete.
    TableStatistics cut;
    if (text.back() == ',') {
      EXPECT_FALSE(decode(std::string_view(text).substr(0, text.size() - 1), &cut));
    }
  }
}

TEST(TableStatisticsTest, texts_of_earlier_builds_were_sampled_at_their_number_of_rows) {
  TableStatistics read;
  ASSERT_TRUE(decode("20;1,;2,1,", &read));
  EXPECT_EQ(read.rows, 20);
  EXPECT_EQ(read.sampled_rows, 20);
  EXPECT_EQ(read.records_per_key, (std::vector<std::vector<uint64_t>>{{1}, {2, 1}}));
}

TEST(TableStatisticsTest, other_texts_are_refused) {
  for (const std::string_view text :
       {"", "x", "1/", "1/x", "1/2x", "1/2/3", "1;x", "1;2", "1,2", "1;2,;x", "99999999999999999999"}) {
    TableStatistics read;
    EXPECT_FALSE(decode(text, &read)) << text;
  }
}

}  // namespace
}  // namespace atoll::table
