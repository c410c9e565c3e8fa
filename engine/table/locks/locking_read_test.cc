// Goal:   a read with locks returns the newest version of each row, and looks up again only those rows that
//         have, or may have, a newer version than its cursor shows.
// Method: two sessions on a table in a real database; between two rows of a read one of them writes.
#include <gmock/gmock.h>

#include "table/row_cursor.h"
#include "table/testing/two_sessions.h"

namespace atoll::table {
namespace {

using ::testing::ElementsAre;
using Found = RowCursor::Found;

class LockingReadTest : public TwoSessionsTest<> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(TwoSessionsTest::SetUp());
    commit_rows({{1, 1}, {2, 2}, {3, 3}, {4, 4}});
    set_lock(one_.get(), RowLock::kExclusive);
  }

  // Reads the table by its primary key. Calls `act` after the first row. Returns all rows.
  std::vector<Row> rows_with(const std::function<void()> &act) {
    RowCursor &cursor = one_->cursor;
    Found found = Found::kNone;
    std::vector<Row> rows;
    cursor.begin_index(kPrimary);
    EXPECT_TRUE(cursor.search(whole_index(kPrimary), one_->record(), &found).ok());
    while (found == Found::kRow) {
      rows.push_back(table_.row(one_->record()));
      if (rows.size() == 1) act();
      EXPECT_TRUE(cursor.next(one_->record(), &found).ok());
    }
    return rows;
  }
  uint64_t lookups(const std::function<void()> &act) { return work_of(WorkKind::kPointGets, act); }
};

TEST_F(LockingReadTest, no_row_is_looked_up_again_when_other_rows_are_written) {
  const uint64_t gets = lookups([&] {
    EXPECT_THAT(rows_with([&] {
                  ASSERT_ATOLL_OK(update(one_.get(), {1, 1}, {1, 10}));
                }),
                ElementsAre(Row{1, 1}, Row{2, 2}, Row{3, 3}, Row{4, 4}));
  });
  EXPECT_EQ(gets, 0);
}

TEST_F(LockingReadTest, own_writes_to_the_rows_that_follow_are_seen) {
  const auto act = [&] {
    ASSERT_ATOLL_OK(update(one_.get(), {2, 2}, {2, 20}));
    ASSERT_ATOLL_OK(remove(one_.get(), {3, 3}));
  };
  EXPECT_THAT(rows_with(act), ElementsAre(Row{1, 1}, Row{2, 20}, Row{4, 4}));
}

TEST_F(LockingReadTest, own_writes_that_were_undone_are_not_seen) {
  const auto act = [&] {
    txn::Transaction *transaction = one_->transaction();
    const size_t depth = transaction->set_savepoint();
    ASSERT_ATOLL_OK(update(one_.get(), {2, 2}, {2, 20}));
    ASSERT_ATOLL_OK(transaction->rollback_to_savepoint(depth));
    ASSERT_ATOLL_OK(update(one_.get(), {4, 4}, {4, 40}));
  };
  EXPECT_THAT(rows_with(act), ElementsAre(Row{1, 1}, Row{2, 2}, Row{3, 3}, Row{4, 40}));
}

TEST_F(LockingReadTest, rows_that_others_have_committed_meanwhile_are_seen) {
  const auto act = [&] {
    ASSERT_ATOLL_OK(update(other_.get(), {3, 3}, {3, 30}));
    commit(other_.get());
  };
  EXPECT_THAT(rows_with(act), ElementsAre(Row{1, 1}, Row{2, 2}, Row{3, 30}, Row{4, 4}));
}

}  // namespace
}  // namespace atoll::table
