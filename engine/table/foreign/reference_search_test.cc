// Goal:   a search for a reference sees the newest rows, and what it has found stays so until its transaction
//         ends: a row that was found is not removed, and a row that was not found is not inserted.
// Method: two sessions on a table in a real database. The one searches, the other one writes.
#include "table/foreign/reference_search.h"

#include <gmock/gmock.h>

#include "table/testing/two_sessions.h"

namespace atoll::table {
namespace {

class ReferenceSearchTest : public TwoSessionsTest<> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(TwoSessionsTest::SetUp());
    commit_rows({{1, 10, 100}, {2, 20, 200}, {3, 20, 300}});
  }
  std::unique_ptr<ReferenceSearch> search_in(size_t index, Statement *statement) {
    return std::make_unique<ReferenceSearch>(
        statement, manager_->locks(), ReferenceSearch::Target{layout_, table_.record_length(), index, 1, -1});
  }
  std::string start(size_t index, const Row &row) const { return table_.key(*layout_, index, row, 1); }
  // Searches in session one. Expects no error.
  bool finds(size_t index, const Row &row) {
    bool found = false;
    const Status status = search_in(index, one_.get())->find(start(index, row), &found);
    EXPECT_TRUE(status.ok()) << status.message();
    return found;
  }
  Code code_of(const Status &status) { return status.code(); }
};

TEST_F(ReferenceSearchTest, finds_rows_by_every_kind_of_index) {
  EXPECT_TRUE(finds(kPrimary, {1}));
  EXPECT_FALSE(finds(kPrimary, {4}));
  EXPECT_TRUE(finds(kSecondary, {0, 20}));
  EXPECT_FALSE(finds(kSecondary, {0, 30}));
  EXPECT_TRUE(finds(kUnique, {0, 0, 300}));
  EXPECT_FALSE(finds(kUnique, {0, 0, 400}));
}

TEST_F(ReferenceSearchTest, sees_what_others_have_committed_after_the_snapshot) {
  one_->transaction()->make_snapshot();
  ASSERT_ATOLL_OK(remove(other_.get(), {1, 10, 100}));
  ASSERT_ATOLL_OK(insert(other_.get(), {4, 40, 400}));
  commit(other_.get());
  for (const size_t index : {kPrimary, kSecondary, kUnique}) {
    EXPECT_FALSE(finds(index, {1, 10, 100})) << index;
    EXPECT_TRUE(finds(index, {4, 40, 400})) << index;
  }
}

TEST_F(ReferenceSearchTest, a_row_that_was_found_is_not_removed_before_the_end) {
  for (const size_t index : {kPrimary, kSecondary, kUnique}) {
    ASSERT_TRUE(finds(index, {1, 10, 100}));
    EXPECT_EQ(code_of(remove(other_.get(), {1, 10, 100})), Code::kLockTimeout) << index;
    commit(one_.get());
  }
  ASSERT_ATOLL_OK(remove(other_.get(), {1, 10, 100}));
}

TEST_F(ReferenceSearchTest, a_row_that_another_transaction_is_removing_is_waited_for) {
  ASSERT_ATOLL_OK(remove(other_.get(), {1, 10, 100}));
  for (const size_t index : {kPrimary, kSecondary, kUnique}) {
    bool found = false;
    EXPECT_EQ(code_of(search_in(index, one_.get())->find(start(index, {1, 10, 100}), &found)),
              Code::kLockTimeout)
        << index;
  }
}

TEST_F(ReferenceSearchTest, a_row_that_was_not_found_is_not_inserted_before_the_end) {
  for (const size_t index : {kPrimary, kSecondary, kUnique}) {
    ASSERT_FALSE(finds(index, {4, 40, 400}));
    EXPECT_EQ(code_of(insert(other_.get(), {4, 40, 400})), Code::kLockTimeout) << index;
    other_->rollback();  // the failed insert keeps locks
    commit(one_.get());
  }
  ASSERT_ATOLL_OK(insert(other_.get(), {4, 40, 400}));
}

TEST_F(ReferenceSearchTest, without_ranges_a_row_that_was_not_found_may_be_inserted) {
  const std::unique_ptr<Session> reads_committed = session(false);
  for (const size_t index : {kPrimary, kSecondary, kUnique}) {
    bool found = true;
    ASSERT_ATOLL_OK(search_in(index, reads_committed.get())->find(start(index, {4, 40, 400}), &found));
    EXPECT_FALSE(found);
  }
  ASSERT_ATOLL_OK(insert(other_.get(), {4, 40, 400}));
}

// The locks of a prepared transaction are only those of the rows that it has written.
TEST_F(ReferenceSearchTest, a_child_that_another_transaction_has_written_is_waited_for_at_every_level) {
  ASSERT_ATOLL_OK(insert(other_.get(), {4, 40, 400}));
  const std::unique_ptr<Session> reads_committed = session(false);
  NewestRows newest(reads_committed.get());
  bool found = false;
  EXPECT_EQ(code_of(search_in(kSecondary, &newest)->find(start(kSecondary, {0, 40}), &found)),
            Code::kLockTimeout);
}

TEST_F(ReferenceSearchTest, a_row_is_looked_up_once_in_a_statement) {
  const std::unique_ptr<ReferenceSearch> search = search_in(kPrimary, one_.get());
  const auto find = [&](const Row &row) {
    bool found = false;
    EXPECT_TRUE(search->find(start(kPrimary, row), &found).ok());
    EXPECT_TRUE(found);
  };
  find({1});
  EXPECT_EQ(work_of(WorkKind::kPointGets, [&] { find({1}); }), 0);
  EXPECT_EQ(work_of(WorkKind::kPointGets, [&] { find({2}); }), 1);
  search->end_statement();
  EXPECT_EQ(work_of(WorkKind::kPointGets, [&] { find({1}); }), 1);
}

TEST_F(ReferenceSearchTest, a_row_that_the_transaction_itself_removes_is_not_remembered) {
  for (const size_t index : {kPrimary, kSecondary, kUnique}) {
    const std::unique_ptr<ReferenceSearch> search = search_in(index, one_.get());
    const std::string key = start(index, {1, 10, 100});
    bool found = false;
    ASSERT_ATOLL_OK(search->find(key, &found));
    ASSERT_TRUE(found);
    const size_t savepoint = one_->set_savepoint();
    ASSERT_ATOLL_OK(remove(one_.get(), {1, 10, 100}));
    ASSERT_ATOLL_OK(search->find(key, &found));
    EXPECT_FALSE(found) << index;
    search->end_statement();
    one_->rollback_to(savepoint);
    ASSERT_ATOLL_OK(search->find(key, &found));
    EXPECT_TRUE(found) << index;
    search->end_statement();
  }
}

TEST_F(ReferenceSearchTest, a_row_whose_insert_was_undone_is_not_remembered) {
  for (const size_t index : {kPrimary, kSecondary, kUnique}) {
    const std::unique_ptr<ReferenceSearch> search = search_in(index, one_.get());
    const std::string key = start(index, {4, 40, 400});
    const size_t savepoint = one_->set_savepoint();
    ASSERT_ATOLL_OK(insert(one_.get(), {4, 40, 400}));
    bool found = false;
    ASSERT_ATOLL_OK(search->find(key, &found));
    EXPECT_TRUE(found) << index;
    one_->rollback_to(savepoint);
    ASSERT_ATOLL_OK(search->find(key, &found));
    EXPECT_FALSE(found) << index;
  }
}

}  // namespace
}  // namespace atoll::table
