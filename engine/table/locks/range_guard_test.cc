// Goal:   no other transaction can insert into the ranges that a locking scan has passed, but it can insert
//         anywhere else. Inserts of the reader's own transaction never wait.
// Method: a reader and a writer in a real database, by each index and in both directions. The rows have the
//         same number in all columns. row_cursor_test.cc tests the same with many readers at random.
#include "table/locks/range_guard.h"

#include <gmock/gmock.h>

#include <tuple>

#include "table/testing/two_sessions.h"

namespace atoll::table {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Row row_of(uint32_t number) { return {number, number, number}; }

template <typename Test = ::testing::Test>
class GuardedTable : public TwoSessionsTest<Test> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(TwoSessionsTest<Test>::SetUp());
    this->commit_rows({row_of(10), row_of(20), row_of(30)});
    this->set_lock(this->one_.get(), RowLock::kShared);
  }
  Code insert(Session *session, uint32_t number) {
    return TwoSessionsTest<Test>::insert(session, row_of(number)).code();
  }
  size_t ranges(const Session &session) { return this->locks(session, txn::LockKind::kRange).size(); }
};

class RangeGuardTest : public GuardedTable<::testing::TestWithParam<std::tuple<size_t, bool>>> {
 protected:
  size_t index() const { return std::get<0>(GetParam()); }
  bool forward() const { return std::get<1>(GetParam()); }
  Search whole(size_t rows_max = SIZE_MAX) const {
    return {index(), whole_index(index(), forward()), {}, rows_max};
  }
  Search from_10_to_before_30() const {
    const Bounds bounds = between(index(), row_of(10), row_of(30));
    return {index(), {.key = forward() ? bounds.lower : bounds.upper, .forward = forward()}, bounds};
  }
  std::vector<Row> in_order(std::vector<Row> rows) const {
    if (!forward()) std::reverse(rows.begin(), rows.end());
    return rows;
  }

  std::vector<Row> rows_;
};

TEST_P(RangeGuardTest, a_range_that_was_read_admits_only_rows_of_its_reader) {
  ASSERT_ATOLL_OK(read(one_.get(), from_10_to_before_30(), &rows_));
  EXPECT_EQ(rows_, in_order({row_of(10), row_of(20)}));
  EXPECT_EQ(insert(other_.get(), 15), Code::kLockTimeout);
  EXPECT_EQ(insert(other_.get(), 25), Code::kLockTimeout);
  other_->rollback();
  EXPECT_EQ(insert(other_.get(), 5), Code::kOk);
  EXPECT_EQ(insert(other_.get(), 35), Code::kOk);
  EXPECT_EQ(insert(one_.get(), 15), Code::kOk);
  commit(one_.get());
  EXPECT_EQ(insert(other_.get(), 25), Code::kOk);
}

TEST_P(RangeGuardTest, a_scan_protects_as_far_as_it_has_come) {
  const uint32_t passed = forward() ? 5 : 35, ahead = forward() ? 15 : 25;
  ASSERT_ATOLL_OK(read(one_.get(), whole(1), &rows_));
  EXPECT_EQ(insert(other_.get(), passed), Code::kLockTimeout);
  EXPECT_EQ(insert(other_.get(), ahead), Code::kOk);
  other_->rollback();
  ASSERT_ATOLL_OK(read(one_.get(), whole(), &rows_));
  for (const uint32_t number : {5, 15, 25, 35})
    EXPECT_EQ(insert(other_.get(), number), Code::kLockTimeout) << number;
}

TEST_P(RangeGuardTest, a_long_scan_locks_its_rows_with_its_ranges) {
  std::vector<Row> many;
  for (uint32_t number = 100; number < 2100; number++) many.push_back(row_of(number));
  commit_rows(many);
  set_lock(one_.get(), RowLock::kExclusive);
  set_lock(other_.get(), RowLock::kExclusive);
  ASSERT_ATOLL_OK(read(one_.get(), whole(1900), &rows_));
  EXPECT_EQ(rows_.size(), 1900u);
  const size_t row_locks = locks(*one_, txn::LockKind::kRow).size();
  EXPECT_EQ(row_locks > 1010, index() != kPrimary) << row_locks;
  for (const Row &row : {rows_.front(), rows_[1500], rows_.back()}) {
    EXPECT_EQ(read(other_.get(), {kPrimary, exact(kPrimary, row)}, &rows_).code(), Code::kLockTimeout);
    other_->rollback();
  }
  const uint32_t last = forward() ? 2099 : 10;
  ASSERT_ATOLL_OK(read(other_.get(), {kPrimary, exact(kPrimary, row_of(last))}, &rows_));
  EXPECT_EQ(rows_, std::vector<Row>{row_of(last)}) << "the scan has not come as far";
}

TEST_P(RangeGuardTest, two_may_read_a_range_into_which_neither_may_insert_then) {
  set_lock(other_.get(), RowLock::kShared);
  for (Session *reader : {one_.get(), other_.get()})
    ASSERT_ATOLL_OK(read(reader, from_10_to_before_30(), &rows_));
  EXPECT_EQ(insert(one_.get(), 15), Code::kLockTimeout);
  EXPECT_EQ(insert(other_.get(), 25), Code::kLockTimeout);
}

TEST_P(RangeGuardTest, neither_a_plain_read_nor_read_committed_protects_anything) {
  set_lock(one_.get(), RowLock::kNone);
  const std::unique_ptr<Session> committed = session(false);
  set_lock(committed.get(), RowLock::kShared);
  for (Session *reader : {one_.get(), committed.get()}) {
    ASSERT_ATOLL_OK(read(reader, whole(), &rows_));
    EXPECT_EQ(ranges(*reader), 0);
  }
  EXPECT_EQ(insert(other_.get(), 15), Code::kOk);
}

TEST_P(RangeGuardTest, a_scan_waits_for_the_writer_of_a_row_that_it_would_pass) {
  ASSERT_EQ(insert(other_.get(), 15), Code::kOk);
  EXPECT_EQ(read(one_.get(), from_10_to_before_30(), &rows_).code(), Code::kLockTimeout);
  commit(other_.get());
  ASSERT_ATOLL_OK(read(one_.get(), from_10_to_before_30(), &rows_));
  EXPECT_EQ(rows_, in_order({row_of(10), row_of(15), row_of(20)}));
}

TEST_P(RangeGuardTest, skip_locked_goes_past_what_another_writes_and_protects_the_rest) {
  ASSERT_EQ(insert(other_.get(), 15), Code::kOk);
  one_->open_table.mutable_mode()->skip_locked = true;
  ASSERT_ATOLL_OK(read(one_.get(), from_10_to_before_30(), &rows_));
  EXPECT_EQ(rows_, in_order({row_of(10), row_of(20)}));
  for (const uint32_t number : {12, 17, 25})
    EXPECT_EQ(insert(other_.get(), number), Code::kLockTimeout) << number;
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<size_t, bool>> &info) {
  static constexpr const char *kNames[] = {"primary_key", "index", "unique_key"};
  return kNames[std::get<0>(info.param)] + std::string(std::get<1>(info.param) ? "_forward" : "_backward");
}
INSTANTIATE_TEST_SUITE_P(by, RangeGuardTest,
                         ::testing::Combine(::testing::Values(kPrimary, kSecondary, kUnique),
                                            ::testing::Bool()),
                         name_of);

// ---- Exact searches ------------------------------------------------------------------------------

class UniqueKeyGuardTest : public GuardedTable<::testing::TestWithParam<size_t>> {
 protected:
  Status search(Session *session, uint32_t number) {
    return read(session, {GetParam(), exact(GetParam(), row_of(number)), {}, 1}, &rows_);
  }
  std::string key(uint32_t number) const { return table_.key(*layout_, GetParam(), row_of(number), 1); }

  std::vector<Row> rows_;
};

TEST_P(UniqueKeyGuardTest, a_key_that_has_a_row_is_locked_without_a_range) {
  ASSERT_ATOLL_OK(search(one_.get(), 20));
  EXPECT_THAT(rows_, ElementsAre(row_of(20)));
  EXPECT_TRUE(locked_keys(*one_).contains(key(20)));
  EXPECT_EQ(ranges(*one_), 0);
  EXPECT_EQ(insert(other_.get(), 19), Code::kOk);
  EXPECT_EQ(insert(other_.get(), 21), Code::kOk);
}

TEST_P(UniqueKeyGuardTest, a_key_without_a_row_is_kept_free_and_others_may_look_for_it) {
  ASSERT_ATOLL_OK(search(one_.get(), 15));
  EXPECT_THAT(rows_, IsEmpty());
  EXPECT_THAT(locked_keys(*one_), IsEmpty());
  set_lock(other_.get(), RowLock::kExclusive);
  ASSERT_ATOLL_OK(search(other_.get(), 15));
  other_->rollback();
  EXPECT_EQ(insert(other_.get(), 15), Code::kLockTimeout);
  EXPECT_EQ(insert(other_.get(), 14), Code::kOk);
  EXPECT_EQ(insert(other_.get(), 16), Code::kOk);
}

TEST_P(UniqueKeyGuardTest, read_committed_keeps_no_lock_of_a_key_without_a_row) {
  const std::unique_ptr<Session> reader = session(false);
  set_lock(reader.get(), RowLock::kExclusive);
  ASSERT_ATOLL_OK(search(reader.get(), 15));
  EXPECT_THAT(locked_keys(*reader), IsEmpty());
  EXPECT_EQ(insert(other_.get(), 15), Code::kOk);
}

INSTANTIATE_TEST_SUITE_P(by, UniqueKeyGuardTest, ::testing::Values(kPrimary, kUnique),
                         [](const auto &info) { return info.param == kPrimary ? "primary" : "unique"; });

using OtherKeyGuardTest = GuardedTable<>;

TEST_F(OtherKeyGuardTest, an_exact_search_protects_the_rows_of_its_key_that_may_come) {
  std::vector<Row> rows;
  ASSERT_ATOLL_OK(read(one_.get(), {kSecondary, exact(kSecondary, row_of(20))}, &rows));
  EXPECT_THAT(rows, ElementsAre(row_of(20)));
  for (const uint32_t id : {15, 25})
    EXPECT_EQ(TwoSessionsTest::insert(other_.get(), {id, 20, id}).code(), Code::kLockTimeout) << id;
  EXPECT_EQ(insert(other_.get(), 19), Code::kOk);
  EXPECT_EQ(insert(other_.get(), 21), Code::kOk);
}

TEST_F(OtherKeyGuardTest, null_in_a_unique_key_is_a_key_that_many_rows_may_have) {
  commit_rows({{40, 40, std::nullopt}});
  std::vector<Row> rows;
  ASSERT_ATOLL_OK(read(one_.get(), {kUnique, exact(kUnique, {40, 40, std::nullopt})}, &rows));
  EXPECT_EQ(rows.size(), 1);
  EXPECT_EQ(TwoSessionsTest::insert(other_.get(), {50, 50, std::nullopt}).code(), Code::kLockTimeout);
  EXPECT_EQ(insert(other_.get(), 60), Code::kOk);
}

// The server searches for rows with the same hash before it inserts a row, so the lock of the hash must be
// kept after the search.
TEST_F(OtherKeyGuardTest, a_long_unique_key_stays_locked_at_every_isolation_level) {
  IndexLayout hashes = layout_->index(kSecondary);
  const std::string key = table_.key(*layout_, kSecondary, row_of(15), 1);
  const std::unique_ptr<Session> reader = session(false);
  set_lock(reader.get(), RowLock::kExclusive);
  RangeGuard guard(reader->open_table, &reader->row_locks);
  ASSERT_ATOLL_OK(guard.protect_point(hashes, key));
  EXPECT_FALSE(guard.is_point());
  hashes.is_long_hash = true;
  ASSERT_ATOLL_OK(guard.protect_point(hashes, key));
  EXPECT_TRUE(guard.is_point());
  guard.leave_absent(hashes, key);
  EXPECT_THAT(locked_keys(*reader), ElementsAre(key));
}

}  // namespace
}  // namespace atoll::table
