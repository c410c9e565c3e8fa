// Goal:   a rollback to a savepoint returns the rows that were added after it, table by table, and no others.
// Method: scenes; then random transactions are compared with a plain list of all changes. The seed is
//         printed.
#include "table/statistics/row_changes.h"

#include <gtest/gtest.h>

#include <map>

#include "codec/test_tables.h"

namespace atoll::table {
namespace {

using Rows = std::map<uint32_t, int64_t>;

Rows as_map(const RowChanges::Counts &counts) { return {counts.begin(), counts.end()}; }

TEST(RowChangesTest, a_rollback_takes_back_what_the_transaction_added) {
  RowChanges changes;
  changes.add(1, 5);
  changes.add(2, -3);
  changes.add(1, 1);
  changes.add(3, 1);
  changes.add(3, -1);
  EXPECT_EQ(as_map(changes.roll_back()), (Rows{{1, 6}, {2, -3}}));
  EXPECT_TRUE(changes.roll_back().empty());
}

// A statement that adds and removes the same number of rows has not changed the table's number of rows.
TEST(RowChangesTest, a_table_whose_number_has_not_changed_is_not_returned) {
  RowChanges changes;
  changes.add(1, 5);
  changes.note_savepoint(0);
  changes.add(1, 3);
  changes.add(2, 1);
  changes.add(1, -3);
  EXPECT_EQ(as_map(changes.roll_back_to(0)), (Rows{{2, 1}}));
}

TEST(RowChangesTest, a_statement_that_fails_takes_back_its_own_rows) {
  RowChanges changes;
  changes.note_savepoint(0);
  changes.add(1, 5);
  changes.note_savepoint(0);  // the savepoint of the next statement
  changes.add(2, 7);
  changes.add(1, 2);
  EXPECT_EQ(as_map(changes.roll_back_to(0)), (Rows{{1, 2}, {2, 7}}));
  EXPECT_EQ(as_map(changes.roll_back()), (Rows{{1, 5}}));
}

TEST(RowChangesTest, a_savepoint_can_be_rolled_back_to_twice) {
  RowChanges changes;
  changes.add(1, 1);
  changes.note_savepoint(0);
  changes.add(1, 10);
  changes.note_savepoint(1);
  changes.add(1, 100);
  EXPECT_EQ(as_map(changes.roll_back_to(0)), (Rows{{1, 110}}));
  changes.add(1, 1000);
  EXPECT_EQ(as_map(changes.roll_back_to(0)), (Rows{{1, 1000}}));
  EXPECT_EQ(as_map(changes.roll_back()), (Rows{{1, 1}}));
}

TEST(RowChangesTest, a_table_that_was_only_updated_is_among_the_changes_until_they_are_rolled_back) {
  RowChanges changes;
  changes.add(1, 0);
  changes.note_savepoint(0);
  changes.add(2, 0);
  EXPECT_EQ(as_map(changes.counts()), (Rows{{1, 0}, {2, 0}}));
  EXPECT_TRUE(changes.roll_back_to(0).empty());
  EXPECT_EQ(as_map(changes.counts()), (Rows{{1, 0}}));
}

TEST(RowChangesTest, what_was_committed_is_not_taken_back) {
  RowChanges changes;
  changes.note_savepoint(0);
  changes.add(1, 1);
  changes.clear();
  EXPECT_TRUE(changes.roll_back().empty());
}

TEST(RowChangesTest, random_transactions_agree_with_a_list_of_all_changes) {
  codec::testing::Random random(codec::testing::seed_of_this_run());
  for (int round = 0; round < 200; round++) {
    RowChanges changes;
    std::vector<std::pair<uint32_t, int64_t>> all;
    std::vector<size_t> savepoints;  // the length of `all` when each was set
    const auto sum_from = [&all](size_t begin) {
      Rows rows;
      for (size_t i = begin; i < all.size(); i++) rows[all[i].first] += all[i].second;
      std::erase_if(rows, [](const auto &table) { return table.second == 0; });
      return rows;
    };
    for (int step = 0; step < 100; step++) {
      const uint64_t what = random.below(10);
      if (what == 0) {
        const size_t number = random.below(savepoints.size() + 1);
        savepoints.resize(number);
        savepoints.push_back(all.size());
        changes.note_savepoint(number);
      } else if (what == 1 && !savepoints.empty()) {
        const size_t number = random.below(savepoints.size());
        ASSERT_EQ(as_map(changes.roll_back_to(number)), sum_from(savepoints[number]));
        all.resize(savepoints[number]);
        savepoints.resize(number + 1);
      } else {
        const auto table = static_cast<uint32_t>(random.below(4));
        const int64_t rows = random.below(2) == 0 ? 1 : -1;
        changes.add(table, rows);
        all.emplace_back(table, rows);
      }
    }
    ASSERT_EQ(as_map(changes.roll_back()), sum_from(0));
  }
}

}  // namespace
}  // namespace atoll::table
