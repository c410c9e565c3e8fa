// Goal:   an ALTER takes in all changes that other sessions commit meanwhile, and no others. It finds
//         duplicates that exist at its end, refuses a log that it cannot read, and leaves no log behind.
// Method: scenes with one or two writers, most of them for every kind of build. online_model_test.cc has
//         random scenes.
#include "table/online/online_build.h"

#include <gtest/gtest.h>

#include <string>

#include "table/online/online_fixture.h"

namespace atoll::table {
namespace {

class OnlineBuildTest : public OnlineFixture<::testing::TestWithParam<Built>> {
 protected:
  // Opens a table with rows, and a writer; begins the ALTER.
  void begin(const Rows &rows, Built built) {
    open_table(built);
    add_writer();
    for (const auto &[id, row] : rows) write(row);
    commit();
    begin_alter();
  }
  void write(const Row &row) { change(row.id, row); }
  void remove(uint32_t id) { change(id, std::nullopt); }
  void change(uint32_t id, const std::optional<Row> &row) {
    const Rows rows = writer().visible(committed_);
    const auto now = rows.find(id);
    ASSERT_ATOLL_OK(writer().write(id, now == rows.end() ? std::nullopt : std::optional(now->second), row));
  }
  void commit() { writer().commit(&committed_); }
  Session &writer() { return *writers_[0]; }

  // Runs the steps of the ALTER that come after its start: it copies the rows, replays the log and commits.
  Status complete() {
    ATOLL_RETURN_IF_ERROR(alter_->fill());
    return alter_->finish();
  }
  void expect_duplicate(const Status &status, std::optional<uint32_t> value) {
    EXPECT_EQ(status.code(), Code::kDuplicate) << status.message();
    EXPECT_EQ(alter_->duplicate_index(), unique_index());
    EXPECT_EQ(table_.row(alter_->view.record()).u, value);
  }

  Rows committed_;
};

const Rows kFourRows = {{1, {1, 10, 100}}, {2, {2, 20, 200}}, {3, {3, 10, 300}}, {4, {4, 40, 400}}};

// ---- Which changes an ALTER takes in -------------------------------------------------------------

TEST_P(OnlineBuildTest, takes_in_changes_before_during_and_after_the_copy) {
  begin(kFourRows, GetParam());
  write({5, 50, 500});
  commit();
  alter_->view.makes_entries = true;
  alter_->view.on_compute = [this, seen = 0]() mutable {
    if (++seen != 2) return;
    write({1, 11, 100});
    remove(4);
    commit();
  };
  ASSERT_ATOLL_OK(alter_->fill());
  write({2, 20, 201});
  change(3, Row{6, 60, 300});  // the row gets another primary key
  commit();
  ASSERT_ATOLL_OK(alter_->replay());
  write({4, 44, 400});
  commit();
  ASSERT_ATOLL_OK(alter_->finish());
  EXPECT_EQ(committed_.size(), 5);
  expect_altered(committed_);
  EXPECT_EQ(logged(), 0);
}

TEST_P(OnlineBuildTest, takes_in_nothing_that_was_rolled_back) {
  begin(kFourRows, GetParam());
  write({1, 11, 101});
  const size_t savepoint = writer().set_savepoint();
  write({1, 12, 102});
  remove(2);
  writer().rollback_to(savepoint);
  commit();
  remove(3);
  write({5, 50, 500});
  writer().rollback();
  ASSERT_ATOLL_OK(complete());
  EXPECT_EQ(committed_.at(1).u, 101);
  expect_altered(committed_);
}

TEST_P(OnlineBuildTest, takes_in_what_is_committed_after_a_replay_has_passed_it) {
  begin(kFourRows, GetParam());
  ASSERT_ATOLL_OK(alter_->fill());
  write({1, 11, 101});  // gets the first number in the log, but is committed last
  Session &other = *add_writer();
  ASSERT_ATOLL_OK(other.write(2, kFourRows.at(2), Row{2, 22, 202}));
  other.commit(&committed_);
  ASSERT_ATOLL_OK(alter_->replay());
  commit();
  ASSERT_ATOLL_OK(alter_->finish());
  expect_altered(committed_);
}

TEST_P(OnlineBuildTest, rows_may_exchange_their_values) {
  begin(kFourRows, GetParam());
  ASSERT_ATOLL_OK(alter_->fill());
  write({1, 10, 999});  // frees 100 first: with kMove, `u` is unique already before the ALTER
  write({2, 20, 100});
  write({1, 10, 200});
  commit();
  ASSERT_ATOLL_OK(alter_->replay());
  ASSERT_ATOLL_OK(alter_->finish());
  expect_altered(committed_);
}

TEST_P(OnlineBuildTest, a_table_that_becomes_empty_is_empty) {
  begin(kFourRows, GetParam());
  for (uint32_t id = 1; id <= 2; id++) remove(id);
  commit();
  ASSERT_ATOLL_OK(alter_->fill());
  for (uint32_t id = 3; id <= 4; id++) remove(id);
  commit();
  ASSERT_ATOLL_OK(alter_->finish());
  expect_altered({});
}

// ---- How an ALTER ends ---------------------------------------------------------------------------

TEST_P(OnlineBuildTest, a_build_that_is_spoiled_fails_and_says_why) {
  begin(kFourRows, GetParam());
  ASSERT_ATOLL_OK(alter_->fill());
  alter_->online()->spoil("a reason");
  const Status status = alter_->finish();
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_EQ(status.message(), std::string("a reason"));
}

TEST_P(OnlineBuildTest, a_build_that_is_given_up_leaves_no_log) {
  begin(kFourRows, GetParam());
  write({1, 11, 101});
  commit();
  const int64_t before = logged();
  EXPECT_GT(before, 0);
  alter_->online()->close();
  write({3, 33, 303});
  commit();
  EXPECT_EQ(logged(), before);
  end_alter();
  EXPECT_EQ(logged(), 0);
}

TEST_P(OnlineBuildTest, what_a_write_refuses_stays_in_the_log) {
  begin(kFourRows, GetParam());
  ASSERT_ATOLL_OK(alter_->fill());
  write({1, 11, 101});
  commit();
  const int64_t before = logged();
  alter_->before_write = Status(Code::kInterrupted, "");
  EXPECT_EQ(alter_->replay().code(), Code::kInterrupted);
  EXPECT_EQ(logged(), before);
  alter_->before_write = Status::Ok();
  ASSERT_ATOLL_OK(alter_->finish());
  expect_altered(committed_);
}

TEST_P(OnlineBuildTest, fails_when_the_expression_of_a_virtual_column_does) {
  begin(kFourRows, GetParam());
  ASSERT_ATOLL_OK(alter_->fill());
  write({1, 11, 101});
  commit();
  alter_->view.computes = Status(Code::kInvalid, "division by zero");
  EXPECT_EQ(alter_->finish().code(), Code::kInvalid);
}

TEST_P(OnlineBuildTest, a_log_record_that_is_damaged_is_corruption) {
  const std::string put(1, '\1'), key(codec::kKeyStartLength + 4, 'k');
  const std::string old_key_and_row =
      "\x06"
      "oldkey"
      "row";
  const std::string damaged[] = {
      "",                                                      // no header
      put + std::string("\x01\0\0", 3),                        // half a header
      put + std::string("\x20\0\0\0", 4) + key,                // the key is longer than the record
      put + std::string("\0\0\0\0", 4) + old_key_and_row,      // no key
      put + std::string("\x02\0\0\0ab", 6) + old_key_and_row,  // half a key
      put + std::string("\x0A\0\0\0", 4) + key + "row",        // no row
  };
  for (const std::string &record : damaged) {
    begin({}, GetParam());
    const std::string log_key("\0\0\0\x05\0\0\0\0\0\0\0\0", 12);
    ASSERT_ATOLL_OK(database_.put(database_->temp_family(), log_key, record));
    EXPECT_EQ(complete().code(), Code::kCorruption) << to_hex(record);
    end_alter();
  }
}

INSTANTIATE_TEST_SUITE_P(of, OnlineBuildTest,
                         ::testing::Values(Built::kIndexes, Built::kMove, Built::kPrimaryKey,
                                           Built::kNumbers),
                         name_of_built);

// ---- Values that must be unique ------------------------------------------------------------------

using OnlineUniqueTest = OnlineBuildTest;

TEST_P(OnlineUniqueTest, a_value_that_becomes_double_is_found_and_named) {
  begin(kFourRows, GetParam());
  ASSERT_ATOLL_OK(alter_->fill());
  write({2, 20, 300});
  commit();
  expect_duplicate(alter_->finish(), 300);
}

TEST_P(OnlineUniqueTest, a_value_that_is_double_in_the_copy_is_found_and_named) {
  begin({{1, {1, 1, 7}}, {2, {2, 2, 7}}}, GetParam());
  expect_duplicate(alter_->fill(), 7);
}

TEST_P(OnlineUniqueTest, values_of_two_new_rows_are_found_and_named) {
  begin(kFourRows, GetParam());
  ASSERT_ATOLL_OK(alter_->fill());
  write({5, 50, 500});
  commit();
  ASSERT_ATOLL_OK(alter_->replay());
  write({6, 60, 500});
  commit();
  expect_duplicate(alter_->finish(), 500);
}

TEST_P(OnlineUniqueTest, a_value_that_is_double_for_a_while_is_none) {
  begin(kFourRows, GetParam());
  ASSERT_ATOLL_OK(alter_->fill());
  write({2, 20, 300});
  write({5, 50, 100});
  commit();
  ASSERT_ATOLL_OK(alter_->replay());
  remove(3);
  write({5, 50, 500});
  commit();
  ASSERT_ATOLL_OK(alter_->finish());
  expect_altered(committed_);
}

TEST_P(OnlineUniqueTest, the_row_that_stays_has_the_value_that_was_double) {
  begin(kFourRows, GetParam());
  ASSERT_ATOLL_OK(alter_->fill());
  write({4, 40, 100});
  commit();
  ASSERT_ATOLL_OK(alter_->replay());
  remove(1);
  commit();
  ASSERT_ATOLL_OK(alter_->finish());
  expect_altered(committed_);
}

INSTANTIATE_TEST_SUITE_P(of, OnlineUniqueTest,
                         ::testing::Values(Built::kIndexes, Built::kPrimaryKey, Built::kNumbers),
                         name_of_built);

// ---- Scenes for one kind of build ----------------------------------------------------------------

using OnlineIndexBuildTest = OnlineBuildTest;

TEST_P(OnlineIndexBuildTest, nulls_are_never_double) {
  begin({{1, {1, 1, std::nullopt}}}, GetParam());
  ASSERT_ATOLL_OK(alter_->fill());
  write({2, 2, std::nullopt});
  write({3, 3, std::nullopt});
  commit();
  ASSERT_ATOLL_OK(alter_->finish());
  expect_altered(committed_);
}

TEST_P(OnlineIndexBuildTest, logs_no_change_that_leaves_the_entries_as_they_are) {
  begin(kFourRows, GetParam());
  write({1, 11, 100});  // changes `a`, but the new index is on `u`
  commit();
  EXPECT_EQ(logged(), 0);
  write({1, 11, 101});
  commit();
  EXPECT_EQ(logged(), 2);
}

TEST_P(OnlineIndexBuildTest, rows_without_an_added_column_have_its_default_in_an_index) {
  default_of_added_ = 7;
  begin({{1, {1, 10, 7}}}, GetParam());
  ASSERT_ATOLL_OK(alter_->fill());
  remove(1);
  write({2, 20, 7});
  commit();
  ASSERT_ATOLL_OK(alter_->replay());
  expect_altered(committed_);
  write({3, 30, 7});
  commit();
  expect_duplicate(alter_->finish(), 7);
}

INSTANTIATE_TEST_SUITE_P(of, OnlineIndexBuildTest, ::testing::Values(Built::kIndexes), name_of_built);

using OnlineNumbersTest = OnlineBuildTest;

TEST_P(OnlineNumbersTest, a_new_row_does_not_get_the_number_of_one_that_went_and_may_come_back) {
  begin(kFourRows, GetParam());
  ASSERT_ATOLL_OK(alter_->fill());
  remove(4);  // this row has the highest number
  commit();
  ASSERT_ATOLL_OK(alter_->replay());
  write({5, 50, 500});
  write({4, 44, 444});
  commit();
  ASSERT_ATOLL_OK(alter_->finish());
  expect_altered(committed_);
}

INSTANTIATE_TEST_SUITE_P(of, OnlineNumbersTest, ::testing::Values(Built::kNumbers), name_of_built);

}  // namespace
}  // namespace atoll::table
