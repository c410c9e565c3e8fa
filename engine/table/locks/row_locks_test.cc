// Goal:   a statement releases the locks of rows that it did not want, and no lock of an earlier statement or
//         of another transaction. A semi-consistent read waits for a row only when the server asks for the
//         row again.
// Method: single locks of two transactions, and one transaction with very many locks.
#include "table/locks/row_locks.h"

#include <gmock/gmock.h>

#include "table/testing/two_sessions.h"

namespace atoll::table {
namespace {

using ::testing::IsEmpty;

class RowLocksTest : public TwoSessionsTest<> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(TwoSessionsTest::SetUp());
    committed_ = session(false);
    for (Session *session : {one_.get(), committed_.get()}) set_lock(session, RowLock::kExclusive);
  }
  std::string key(uint32_t id) const { return table_.key(*layout_, kPrimary, {id}, 1); }
  Status lock(Session *session, uint32_t id) {
    return session->row_locks.lock(key(id), RowLock::kExclusive, nullptr);
  }
  // Locks a row in the way a scan does.
  Code peek(Session *session, uint32_t id) {
    waited_ = false;
    return session->row_locks.lock_or_peek(key(id), &waited_).code();
  }

  std::unique_ptr<Session> committed_;  // READ COMMITTED
  bool waited_ = false;
};

TEST_F(RowLocksTest, read_committed_gives_back_the_row_that_was_read_last) {
  ASSERT_ATOLL_OK(lock(committed_.get(), 1));
  ASSERT_ATOLL_OK(lock(committed_.get(), 2));
  committed_->row_locks.give_back(key(2));
  EXPECT_TRUE(committed_->has_locked(1));
  EXPECT_FALSE(committed_->has_locked(2));
  EXPECT_EQ(lock(one_.get(), 2).code(), Code::kOk);
}

TEST_F(RowLocksTest, repeatable_read_keeps_all_locks_but_those_of_keys_without_a_row) {
  ASSERT_ATOLL_OK(lock(one_.get(), 1));
  one_->row_locks.give_back(key(1));
  EXPECT_TRUE(one_->has_locked(1));
  one_->row_locks.release(key(1));
  EXPECT_FALSE(one_->has_locked(1));
}

TEST_F(RowLocksTest, the_lock_of_an_earlier_statement_is_not_given_back) {
  ASSERT_ATOLL_OK(lock(committed_.get(), 1));
  set_lock(committed_.get(), RowLock::kNone);
  committed_->row_locks.give_back(key(1));  // called by a consistent read, which has locked nothing
  EXPECT_TRUE(committed_->has_locked(1));
  committed_->end_statement();
  set_lock(committed_.get(), RowLock::kExclusive);
  ASSERT_ATOLL_OK(lock(committed_.get(), 1));
  committed_->row_locks.give_back(key(1));
  EXPECT_TRUE(committed_->has_locked(1));
}

TEST_F(RowLocksTest, a_row_that_was_not_locked_yet_does_not_cost_the_row_before_its_lock) {
  ASSERT_ATOLL_OK(lock(committed_.get(), 1));
  committed_->row_locks.forget_newest();
  committed_->row_locks.give_back(key(1));
  EXPECT_TRUE(committed_->has_locked(1));
}

TEST_F(RowLocksTest, temporary_tables_have_no_locks) {
  auto def = std::make_shared<catalog::TableDef>(layout_->def());
  one_->open_table.set_layout(layout_->moved(def, database_->temp_family()));
  ASSERT_ATOLL_OK(lock(one_.get(), 1));
  EXPECT_THAT(locked_keys(*one_), IsEmpty());
  one_->row_locks.give_back(key(1));
}

// The test allows ten row locks. Further row locks of a transaction become locks on ranges of rows (escalated
// locks, txn/locks/lock_table.h).
TEST_F(RowLocksTest, very_many_locks_hold_as_each_of_them_would) {
  constexpr uint32_t kLocks = 200;
  manager_->locks()->set_row_locks_max(10);
  for (uint32_t id = 0; id < kLocks; id++) ASSERT_ATOLL_OK(lock(one_.get(), id));
  EXPECT_LE(locks(*one_, txn::LockKind::kRow).size(), 12);
  for (uint32_t id = 0; id < kLocks; id++) {
    ASSERT_EQ(lock(committed_.get(), id).code(), Code::kLockTimeout) << id;
    ASSERT_EQ(lock(one_.get(), id).code(), Code::kOk) << id;
  }
  EXPECT_EQ(lock(committed_.get(), kLocks).code(), Code::kOk);
  one_->rollback();
  for (uint32_t id = 0; id < kLocks; id++) ASSERT_EQ(lock(committed_.get(), id).code(), Code::kOk) << id;
}

// ---- Semi-consistent reads -----------------------------------------------------------------------

class SemiConsistentTest : public RowLocksTest {
 protected:
  static constexpr uint32_t kFree = 1, kTaken = 2;

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(RowLocksTest::SetUp());
    ASSERT_ATOLL_OK(lock(other_.get(), kTaken));
    rows().allow_semi_consistent(true);
  }
  RowLocks &rows() { return committed_->row_locks; }
  // Checks that a scan returns the row that another transaction has locked, and takes no lock on it.
  void expect_unlocked() {
    EXPECT_EQ(peek(committed_.get(), kTaken), Code::kOk);
    EXPECT_TRUE(rows().returned_unlocked());
    EXPECT_FALSE(committed_->has_locked(kTaken));
  }
  void expect_to_wait(Session *session) {
    EXPECT_EQ(peek(session, kTaken), Code::kLockTimeout);
    EXPECT_FALSE(session->row_locks.returned_unlocked());
  }
};

TEST_F(SemiConsistentTest, a_free_row_is_locked) {
  EXPECT_EQ(peek(committed_.get(), kFree), Code::kOk);
  EXPECT_FALSE(rows().returned_unlocked());
  EXPECT_FALSE(waited_);
  EXPECT_TRUE(committed_->has_locked(kFree));
}

TEST_F(SemiConsistentTest, waits_for_a_row_only_when_it_is_asked_for_again) {
  expect_unlocked();
  EXPECT_TRUE(waited_) << "what the cursor saw may be old";
  rows().ask_again();
  expect_to_wait(committed_.get());
  expect_unlocked();  // stands for the next row of the scan
  other_->rollback();
  rows().ask_again();
  EXPECT_EQ(peek(committed_.get(), kTaken), Code::kOk);
  EXPECT_TRUE(committed_->has_locked(kTaken));
}

TEST_F(SemiConsistentTest, a_row_that_does_not_match_costs_no_lock_of_another) {
  EXPECT_EQ(peek(committed_.get(), kFree), Code::kOk);
  expect_unlocked();
  rows().give_back(key(kTaken));
  EXPECT_FALSE(rows().returned_unlocked());
  EXPECT_TRUE(committed_->has_locked(kFree));
  EXPECT_TRUE(other_->has_locked(kTaken));
  expect_unlocked();
}

TEST_F(SemiConsistentTest, a_search_forgets_the_row_that_the_last_one_returned) {
  expect_unlocked();
  rows().begin_search(false);
  EXPECT_FALSE(rows().returned_unlocked());
  expect_unlocked();
}

TEST_F(SemiConsistentTest, the_one_row_of_a_unique_key_is_waited_for_at_once) {
  rows().begin_search(true);
  expect_to_wait(committed_.get());
  expect_unlocked();
}

TEST_F(SemiConsistentTest, is_for_read_committed_and_where_the_server_allows_it) {
  one_->row_locks.allow_semi_consistent(true);
  expect_to_wait(one_.get());
  rows().allow_semi_consistent(false);
  expect_to_wait(committed_.get());
}

}  // namespace
}  // namespace atoll::table
