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

// Reads of a secondary index whose entries have all that the statement needs.
class LockedEntriesTest : public LockingReadTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(LockingReadTest::SetUp());
    commit_rows({{11, 7}, {12, 7}, {13, 7}, {14, 8}});
    one_->cursor.wanted().locked_entries_suffice = true;
  }
  // Reads the rows with a = 7. Calls `act` after the first row. Returns their ids.
  std::vector<uint32_t> ids_with(bool locks_at_once, const std::function<void()> &act) {
    RowCursor &cursor = one_->cursor;
    Found found = Found::kNone;
    std::vector<uint32_t> ids;
    Seek seek = exact(kSecondary, {0, 7});
    seek.locks_at_once = locks_at_once;
    cursor.begin_index(kSecondary);
    EXPECT_TRUE(cursor.search(seek, one_->record(), &found).ok());
    while (found == Found::kRow) {
      ids.push_back(table_.row(one_->record()).id);
      if (ids.size() == 1) act();
      EXPECT_TRUE(cursor.next_same(one_->record(), &found).ok());
    }
    return ids;
  }
};

TEST_F(LockedEntriesTest, rows_are_locked_and_not_looked_up) {
  for (const bool at_once : {false, true}) {
    const uint64_t gets = lookups([&] { EXPECT_THAT(ids_with(at_once, [] {}), ElementsAre(11, 12, 13)); });
    EXPECT_EQ(gets, 0);
    EXPECT_EQ(remove(other_.get(), {13, 7}).code(), Code::kLockTimeout);
    other_->rollback();
  }
}

TEST_F(LockedEntriesTest, a_row_that_others_have_changed_meanwhile_is_looked_up) {
  for (const bool at_once : {false, true}) {
    const auto act = [&] {
      ASSERT_ATOLL_OK(update(other_.get(), {12, 7}, {12, 9}));
      commit(other_.get());
    };
    EXPECT_THAT(ids_with(at_once, act), ElementsAre(11, 13));
    commit(one_.get());
    ASSERT_ATOLL_OK(update(other_.get(), {12, 9}, {12, 7}));
    commit(other_.get());
  }
}

TEST_F(LockedEntriesTest, a_row_that_the_transaction_has_changed_meanwhile_is_looked_up) {
  const auto act = [&] {
    ASSERT_ATOLL_OK(update(one_.get(), {12, 7}, {12, 9}));
    ASSERT_ATOLL_OK(remove(one_.get(), {13, 7}));
  };
  EXPECT_THAT(ids_with(true, act), ElementsAre(11));
}

TEST_F(LockedEntriesTest, the_whole_range_is_locked_at_once_if_the_search_asks_for_it) {
  for (const bool at_once : {false, true}) {
    Status status;
    const auto act = [&] {
      status = insert(other_.get(), {15, 7});
      other_->rollback();
    };
    EXPECT_THAT(ids_with(at_once, act), ElementsAre(11, 12, 13));
    EXPECT_EQ(status.code(), at_once ? Code::kLockTimeout : Code::kOk);
    commit(one_.get());
  }
}

TEST_F(LockedEntriesTest, a_row_that_another_has_not_committed_is_waited_for_at_once) {
  ASSERT_ATOLL_OK(insert(other_.get(), {15, 7}));
  Seek seek = exact(kSecondary, {0, 7});
  seek.locks_at_once = true;
  Found found = Found::kNone;
  one_->cursor.begin_index(kSecondary);
  EXPECT_EQ(one_->cursor.search(seek, one_->record(), &found).code(), Code::kLockTimeout);
}

}  // namespace
}  // namespace atoll::table
