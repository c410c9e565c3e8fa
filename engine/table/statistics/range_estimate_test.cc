// Goal:   short ranges are counted exactly, and long ranges are estimated within a factor. The cost does not
//         grow with the range. EXPLAIN takes no snapshot.
// Method: random ranges of tables with evenly spread and with clustered keys, in a memtable and in files. The
//         counters of work give the cost. The seed is printed; ATOLL_TEST_SEED repeats a run.
#include "table/statistics/range_estimate.h"

#include <gtest/gtest.h>

#include <iterator>

#include "base/work.h"
#include "table/testing/stored_table.h"

namespace atoll::table {
namespace {

constexpr uint32_t kRows = 20000;
constexpr uint32_t kSpread = 10;  // the distance between two evenly spread ids
constexpr int kRanges = 300;
// The largest numbers of entries that an estimate may count, as range_estimate.h says.
constexpr uint64_t kPrimaryStepsMax = 24, kSecondaryStepsMax = 100;

class RangeEstimateTest : public StoredTableTest<TestTable, ::testing::TestWithParam<bool>> {
 protected:
  void fill(uint32_t spread) {
    for (uint32_t i = 0; i < kRows; i++) put({i * spread, i / 50, kRows - i});
    if (GetParam()) ASSERT_ATOLL_OK(database_->flush(nullptr));
    session_ = std::make_unique<Session>(table_, layout_, manager_.get(), true);
  }
  void put(const Row &row) {
    rows_[row.id] = row;
    StoredTableTest::put(row);
  }

  uint64_t estimate(size_t index, const Bounds &bounds, bool is_read_afterwards = true) {
    session_->cursor.begin_index(index);
    const uint64_t before = work_.get()->count(WorkKind::kEstimateSteps);
    const uint64_t rows = estimate_rows(&session_->cursor, database_.operator->(), &cache_,
                                        {index, bounds, kRows, is_read_afterwards});
    steps_ = work_.get()->count(WorkKind::kEstimateSteps) - before;
    return rows;
  }
  Bounds ids(uint32_t from, uint32_t to) const {
    return {table_.key(*layout_, kPrimary, {.id = from}, 1), table_.key(*layout_, kPrimary, {.id = to}, 1)};
  }
  Bounds values(uint32_t from, uint32_t to) const {
    return {table_.key(*layout_, kSecondary, {.a = from}, 1), table_.key(*layout_, kSecondary, {.a = to}, 1)};
  }
  uint64_t rows_between(uint32_t from, uint32_t to) const {
    return static_cast<uint64_t>(std::distance(rows_.lower_bound(from), rows_.lower_bound(to)));
  }

  std::unique_ptr<Session> session_;
  EstimateCache cache_;
  Rows rows_;
  OwnWork work_;
  WorkScope counted_{work_.get()};
  uint64_t steps_ = 0;  // the entries that the last estimate counted
  codec::testing::Random random_{codec::testing::seed_of_this_run()};
};

TEST_P(RangeEstimateTest, short_ranges_of_rows_are_counted) {
  fill(kSpread);
  for (int i = 0; i < kRanges; i++) {
    const auto from = static_cast<uint32_t>(random_.below(kRows * kSpread));
    const auto to =
        static_cast<uint32_t>(from + 1 + random_.below(txn::Cursor::kRememberedEntriesMax * kSpread));
    const uint64_t rows = rows_between(from, to);
    EXPECT_EQ(estimate(kPrimary, ids(from, to)), std::max<uint64_t>(rows, 1)) << from << " to " << to;
    EXPECT_LE(steps_, kPrimaryStepsMax);
  }
}

TEST_P(RangeEstimateTest, ranges_of_some_hundred_rows_are_within_a_factor_of_two) {
  fill(kSpread);
  for (int i = 0; i < kRanges; i++) {
    const auto from = static_cast<uint32_t>(random_.below(kRows * kSpread / 2));
    const auto to = static_cast<uint32_t>(from + 200 + random_.below(800 * kSpread));
    const uint64_t rows = rows_between(from, to), estimated = estimate(kPrimary, ids(from, to));
    EXPECT_LE(estimated, rows * 2) << from << " to " << to;
    EXPECT_GE(estimated, rows / 2) << from << " to " << to;
    EXPECT_LE(steps_, kPrimaryStepsMax);
  }
}

// For such long ranges the estimate uses the sizes of files and memtables. Those of a memtable are inexact,
// so a factor of four is allowed.
TEST_P(RangeEstimateTest, longer_ranges_are_neither_taken_for_few_rows_nor_for_all) {
  fill(kSpread);
  for (int i = 0; i < kRanges; i++) {
    const auto from = static_cast<uint32_t>(random_.below(kRows * kSpread / 2));
    const auto to = static_cast<uint32_t>(from + (kRows / 8 + random_.below(kRows / 8)) * kSpread);
    const uint64_t rows = rows_between(from, to), estimated = estimate(kPrimary, ids(from, to));
    EXPECT_LE(estimated, rows * 4) << from << " to " << to;
    EXPECT_GE(estimated, rows / 4) << from << " to " << to;
    EXPECT_LE(steps_, kPrimaryStepsMax);
  }
}

TEST_P(RangeEstimateTest, single_rows_far_behind_a_cluster_are_not_taken_for_a_part_of_it) {
  constexpr uint32_t kGap = 1000000, kSingleRows = 200;
  fill(1);
  for (uint32_t i = 1; i <= kSingleRows; i++) put({kRows + i * kGap, 0, kRows + i});
  for (uint32_t i = 1; i < kSingleRows / 2; i++) {
    const uint64_t rows = 100;
    const uint64_t estimated = estimate(kPrimary, ids(kRows + i * kGap, kRows + (i + rows) * kGap));
    EXPECT_LE(estimated, rows * 4) << i;
    EXPECT_GE(estimated, rows / 4) << i;
    EXPECT_LE(steps_, kPrimaryStepsMax);
  }
}

TEST_P(RangeEstimateTest, ranges_of_up_to_a_hundred_entries_are_counted) {
  fill(kSpread);
  for (uint32_t value = 0; value < 300; value++) {
    EXPECT_EQ(estimate(kSecondary, values(value, value + 1)), 50);
    EXPECT_LE(steps_, kSecondaryStepsMax);
    EXPECT_GE(estimate(kSecondary, values(value, value + 10)), kSecondaryStepsMax);
    EXPECT_LE(steps_, kSecondaryStepsMax);
  }
}

TEST_P(RangeEstimateTest, a_range_without_rows_is_one) {
  fill(kSpread);
  EXPECT_EQ(estimate(kPrimary, ids(1, 2)), 1);
  EXPECT_EQ(estimate(kPrimary, ids(kRows * kSpread, UINT32_MAX)), 1);
  EXPECT_EQ(estimate(kSecondary, values(kRows, kRows + 1)), 1);
}

TEST_P(RangeEstimateTest, the_snapshot_is_taken_only_for_a_read) {
  fill(kSpread);
  estimate(kPrimary, ids(0, 100), /*is_read_afterwards=*/false);
  EXPECT_FALSE(session_->transaction()->has_snapshot());
  estimate(kPrimary, ids(0, 100), /*is_read_afterwards=*/true);
  EXPECT_TRUE(session_->transaction()->has_snapshot());
}

TEST_P(RangeEstimateTest, the_read_afterwards_finds_its_first_rows_without_a_search) {
  fill(kSpread);
  const Bounds bounds = ids(1000, 1000 + 10 * kSpread);
  ASSERT_EQ(estimate(kPrimary, bounds), 10);
  const uint64_t before = work_.get()->count(WorkKind::kCursorSeeks);
  RowCursor &cursor = session_->cursor;
  cursor.bounds().give(bounds);
  Seek seek;
  seek.key = bounds.lower;
  RowCursor::Found found = RowCursor::Found::kNone;
  ASSERT_ATOLL_OK(cursor.search(seek, session_->record(), &found));
  for (uint32_t id = 1000; id < 1000 + 10 * kSpread; id += kSpread) {
    ASSERT_EQ(found, RowCursor::Found::kRow);
    EXPECT_EQ(table_.row(session_->record()).id, id);
    ASSERT_ATOLL_OK(cursor.next(session_->record(), &found));
  }
  EXPECT_EQ(found, RowCursor::Found::kNone);
  EXPECT_EQ(work_.get()->count(WorkKind::kCursorSeeks), before);
}

INSTANTIATE_TEST_SUITE_P(in, RangeEstimateTest, ::testing::Values(false, true),
                         [](const auto &info) { return info.param ? "files" : "memory"; });

}  // namespace
}  // namespace atoll::table
