// Goal:   a condition is evaluated only where its refusals save more than the evaluation costs. It refuses
//         every row for which it is not true, and reports a row that cannot be read.
// Method: the test offers rows to a filter one by one, and counts on how many the filter wants to evaluate
//         the condition.
#include "table/row_filter.h"

#include <gtest/gtest.h>

#include "table/testing/stored_table.h"

namespace atoll::table {
namespace {

// A session with the pushed condition a >= 10.
class FilteringSession final : public PlainSession {
 public:
  using PlainSession::PlainSession;

  std::unique_ptr<codec::Predicate> condition = codec::Predicate::compare(
      1, codec::CompareOp::kGreaterEqual, {.as = codec::CompareAs::kUnsignedInteger, .unsigned_value = 10});
  int times_asked_for = 0;
  int refused = 0;

  const codec::Predicate *predicate() override {
    ++times_asked_for;
    return condition.get();
  }
  void note_refused_row() override { ++refused; }
};

class RowFilterTest : public StoredTableTest<TestTable> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(StoredTableTest::SetUp());
    session_ = std::make_unique<FilteringSession>(layout_, table_.record_length(), manager_.get());
    filter_ = std::make_unique<RowFilter>(session_->open_table, session_.get());
    filter_->set_condition(true);
  }
  bool passes(std::optional<uint32_t> a) {
    std::string packed;
    layout_->row().pack(table_.record({1, a, std::nullopt}).data(), &packed);
    bool passes = false;
    EXPECT_EQ(filter_->evaluate("", packed, &passes).code(), Code::kOk);
    return passes;
  }
  // Returns on how many of `rows` equal rows the condition is evaluated.
  int asked(int rows, uint32_t a, bool are_point_reads = false) {
    int asked = 0;
    for (int i = 0; i < rows; i++) {
      if (!filter_->may_refuse(are_point_reads)) continue;
      ++asked;
      (void)passes(a);
    }
    return asked;
  }

  static constexpr uint32_t kRefused = 9, kPassing = 10;
  static constexpr int kUnasked = 8;  // rows at the start of a statement without a check of the condition

  std::unique_ptr<FilteringSession> session_;
  std::unique_ptr<RowFilter> filter_;
};

TEST_F(RowFilterTest, a_row_passes_only_if_the_condition_is_true) {
  EXPECT_TRUE(passes(10));
  EXPECT_FALSE(passes(9));
  EXPECT_FALSE(passes(std::nullopt));
  EXPECT_EQ(session_->refused, 2);
}

TEST_F(RowFilterTest, a_statement_that_reads_a_few_rows_does_not_ask) {
  EXPECT_EQ(asked(kUnasked, kRefused), 0);
  EXPECT_EQ(asked(30, kRefused), 30);
  filter_->set_condition(true);  // the next statement pushes a condition
  EXPECT_EQ(asked(kUnasked, kRefused), 0);
}

TEST_F(RowFilterTest, asks_rarely_where_nothing_is_refused_until_something_is) {
  (void)asked(kUnasked, kPassing);
  EXPECT_EQ(asked(8, kPassing), 8);
  const int of_160 = asked(160, kPassing);
  EXPECT_GE(of_160, 9);
  EXPECT_LE(of_160, 12);
  (void)asked(16, kRefused);  // the condition is evaluated on one of these, and refuses it
  EXPECT_EQ(asked(16, kRefused), 16);
}

TEST_F(RowFilterTest, a_scan_with_locks_asks_of_each_row_and_a_locked_row_saves_nothing) {
  session_->open_table.mutable_mode()->lock = RowLock::kExclusive;
  EXPECT_EQ(asked(100, kPassing), 100);
  filter_->set_condition(true);
  EXPECT_EQ(asked(kUnasked, kRefused, true), 0);
}

TEST_F(RowFilterTest, a_search_that_must_return_its_row_does_not_ask) {
  (void)asked(kUnasked, kRefused);
  filter_->ask(RowFilter::Asked::kNothing);
  EXPECT_FALSE(filter_->asks_entry_conditions());
  EXPECT_EQ(asked(30, kRefused), 0);
  filter_->ask(RowFilter::Asked::kEntryConditions);
  EXPECT_TRUE(filter_->asks_entry_conditions());
  EXPECT_EQ(asked(30, kRefused), 0);
  filter_->ask(RowFilter::Asked::kAll);
  EXPECT_EQ(asked(30, kRefused), 30);
}

TEST_F(RowFilterTest, a_condition_that_packed_rows_cannot_answer_is_asked_for_once) {
  session_->condition = nullptr;
  EXPECT_EQ(asked(100, kRefused), 0);
  EXPECT_EQ(session_->times_asked_for, 1);
}

TEST_F(RowFilterTest, a_row_that_cannot_be_read_does_not_pass) {
  bool passes = true;
  EXPECT_EQ(filter_->evaluate("", "", &passes).code(), Code::kCorruption);
  EXPECT_FALSE(passes);
}

}  // namespace
}  // namespace atoll::table
