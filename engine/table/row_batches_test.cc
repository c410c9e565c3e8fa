// Goal:   a scan looks up many rows at a time where a statement reads many. It looks up no row behind the end
//         of the range, and no row that a condition on the index entry refuses.
// Method: many rows in a real database; the test counts the keys of each lookup. (row_cursor_test.cc tests at
//         random which rows are returned.)
#include <gmock/gmock.h>

#include "table/testing/two_sessions.h"

namespace atoll::table {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kRows = 2500;

Row row_of(uint32_t number) { return {number, number, std::nullopt}; }

class RowBatchesTest : public TwoSessionsTest<> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(TwoSessionsTest::SetUp());
    for (uint32_t number = 0; number < kRows; number++) put(row_of(number));
  }
  RowCursor &cursor() { return one_->cursor; }
  // Returns how many rows are looked up while `act` runs. A lookup of a single row does not use MultiGet, so
  // both kinds are counted.
  uint64_t lookups_of(const std::function<void()> &act) {
    uint64_t single = 0;
    const uint64_t together =
        work_of(WorkKind::kMultiGetKeys, [&] { single = work_of(WorkKind::kPointGets, act); });
    return single + together;
  }
  // Counts, after each row that the search returns, how many rows were looked up so far. Returns these
  // counts, each once. A count grows only when the scan reads a batch, so the result has the count after each
  // batch.
  std::vector<uint64_t> looked_up(const Search &search) {
    std::vector<uint64_t> counts;
    uint64_t count = 0;
    RowCursor::Found found = RowCursor::Found::kNone;
    cursor().begin_index(search.index);
    if (search.given) cursor().bounds().give(*search.given);
    const auto take = [&](bool is_first) {
      count += lookups_of([&] {
        ASSERT_ATOLL_OK(is_first              ? cursor().search(search.seek, one_->record(), &found)
                        : search.seek.forward ? cursor().next(one_->record(), &found)
                                              : cursor().prev(one_->record(), &found));
      });
      if (counts.empty() || count != counts.back()) counts.push_back(count);
    };
    take(true);
    while (found == RowCursor::Found::kRow) take(false);
    return counts;
  }
  Seek whole(bool forward, size_t rows_wanted) const {
    Seek seek = whole_index(kSecondary, forward);
    seek.rows_wanted = rows_wanted;
    return seek;
  }
};

TEST_F(RowBatchesTest, grow_eightfold_up_to_a_thousand_rows) {
  for (const bool forward : {true, false}) {
    EXPECT_THAT(looked_up({kSecondary, whole(forward, 1)}), ElementsAre(1, 9, 73, 585, 1609, kRows));
    EXPECT_THAT(looked_up({kSecondary, whole(forward, 200)}), ElementsAre(200, 1224, 2248, kRows));
  }
}

TEST_F(RowBatchesTest, end_where_the_range_ends) {
  const Bounds bounds = between(kSecondary, row_of(100), row_of(112));
  EXPECT_THAT(looked_up({kSecondary, {.key = bounds.lower, .rows_wanted = 100}, bounds}), ElementsAre(12));
  EXPECT_THAT(looked_up({kSecondary, {.key = bounds.upper, .forward = false, .rows_wanted = 100}, bounds}),
              ElementsAre(12));
}

TEST_F(RowBatchesTest, begin_small_again_when_the_scan_turns) {
  std::vector<Row> rows;
  ASSERT_ATOLL_OK(read(one_.get(), {kSecondary, whole(true, 1), {}, 20}, &rows));
  RowCursor::Found found = RowCursor::Found::kNone;
  const auto turn = [&] { ASSERT_ATOLL_OK(cursor().prev(one_->record(), &found)); };
  EXPECT_EQ(lookups_of(turn), 1);
  EXPECT_EQ(table_.row(one_->record()), row_of(18));
}

TEST_F(RowBatchesTest, leave_out_rows_that_the_transaction_has_removed_since_the_scan_began) {
  std::vector<Row> rows;
  ASSERT_ATOLL_OK(read(one_.get(), {kSecondary, whole(true, 1), {}, 1}, &rows));
  for (const uint32_t number : {1, 2}) ASSERT_ATOLL_OK(remove(one_.get(), row_of(number)));
  RowCursor::Found found = RowCursor::Found::kNone;
  ASSERT_ATOLL_OK(cursor().next(one_->record(), &found));
  EXPECT_EQ(table_.row(one_->record()), row_of(3));
}

// The pushed condition is evaluated on the rows of a batch. After a batch in which no row passes, the scan
// reads the next batch.
TEST_F(RowBatchesTest, go_on_until_a_row_passes_the_pushed_condition) {
  one_->condition = 2400;
  cursor().filter().set_condition(true);
  const std::vector<Row> rows = rows_by(one_.get(), kSecondary);
  ASSERT_EQ(rows.size(), 108);  // 100 rows pass, and the condition is not evaluated on the first 8
  EXPECT_EQ(rows[7], row_of(7));
  EXPECT_EQ(rows[8], row_of(2400));
}

TEST_F(RowBatchesTest, end_with_the_statement) {
  one_->is_statement_killed = true;
  std::vector<Row> rows;
  EXPECT_EQ(read(one_.get(), {kSecondary, whole(true, 1)}, &rows).code(), Code::kInterrupted);
  EXPECT_LT(rows.size(), 1024);
}

TEST_F(RowBatchesTest, of_many_ranges_are_one_lookup) {
  cursor().begin_index(kSecondary);
  RowCursor::Found found = RowCursor::Found::kNone;
  ASSERT_ATOLL_OK(cursor().begin_ranges(100, &found));
  cursor().begin_batch();
  for (const uint32_t first : {700, 300}) {
    cursor().begin_range(between(kSecondary, row_of(first), row_of(first + 2)));
    ASSERT_ATOLL_OK(cursor().gather());
    EXPECT_TRUE(cursor().batch().ended);
  }
  cursor().add_row(table_.key(*layout_, kPrimary, row_of(5), 1));
  EXPECT_EQ(work_of(WorkKind::kMultiGets, [&] { ASSERT_ATOLL_OK(cursor().look_up(&found)); }), 1);
  std::vector<uint32_t> ids;
  while (found == RowCursor::Found::kRow) {
    ASSERT_ATOLL_OK(cursor().next_of_batch(one_->record(), &found));
    if (found == RowCursor::Found::kRow) ids.push_back(table_.row(one_->record()).id);
  }
  EXPECT_THAT(ids, ElementsAre(700, 701, 300, 301, 5));
}

TEST_F(RowBatchesTest, are_not_read_from_a_table_that_is_newer_than_the_snapshot) {
  one_->transaction()->make_snapshot();
  put(row_of(kRows));
  auto def = std::make_shared<catalog::TableDef>(layout_->def());
  def->readable_from.number = layout_->family()->newest_sequence();
  one_->open_table.set_layout(layout_->moved(def, layout_->family()));
  RowCursor::Found found = RowCursor::Found::kNone;
  cursor().begin_index(kSecondary);
  ASSERT_ATOLL_OK(cursor().begin_ranges(100, &found));
  EXPECT_EQ(found, RowCursor::Found::kTooNew);
}

// ---- Conditions on entries -----------------------------------------------------------------------

class AskingSession final : public PlainSession {
 public:
  AskingSession(const TestTable &table, const std::shared_ptr<const Layout> &layout, txn::Manager *manager)
      : PlainSession(layout, table.record_length(), manager), table_(table) {}

  // Pushed conditions that a test chooses: one on the column `a` of an entry, and one on the row's primary
  // key. Empty: that condition is not pushed.
  std::function<Verdict(uint32_t)> entry_condition;
  std::function<Verdict(const std::string &)> row_filter;

  bool has_entry_condition() const override { return entry_condition != nullptr; }
  Verdict check_entry() override { return entry_condition(*table_.entry_row(record(), kSecondary).a); }
  bool has_row_filter() const override { return row_filter != nullptr; }
  Verdict check_row_filter() override { return row_filter(open_table.row_key()); }

 private:
  const TestTable &table_;
};

class EntryConditionTest : public RowBatchesTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(RowBatchesTest::SetUp());
    session_ = std::make_unique<AskingSession>(table_, layout_, manager_.get());
  }
  // Returns the ids of the first 20 rows in the order of index `a`, without rows that the conditions refuse.
  std::vector<uint32_t> ids() {
    std::vector<uint32_t> ids;
    looked_up_ = lookups_of([&] {
      const Bounds bounds = between(kSecondary, row_of(0), row_of(20));
      RowCursor &cursor = session_->cursor;
      RowCursor::Found found = RowCursor::Found::kNone;
      cursor.begin_index(kSecondary);
      cursor.bounds().give(bounds);
      status_ = cursor.search({.key = bounds.lower}, session_->record(), &found);
      while (status_.ok() && found == RowCursor::Found::kRow) {
        ids.push_back(table_.row(session_->record()).id);
        status_ = cursor.next(session_->record(), &found);
      }
    });
    return ids;
  }

  std::unique_ptr<AskingSession> session_;
  uint64_t looked_up_ = 0;
  Status status_;
};

TEST_F(EntryConditionTest, spares_the_lookup_of_rows_that_it_refuses) {
  session_->entry_condition = [](uint32_t a) { return a % 7 == 0 ? Verdict::kPasses : Verdict::kRefused; };
  EXPECT_THAT(ids(), ElementsAre(0, 7, 14));
  EXPECT_EQ(looked_up_, 3);
}

TEST_F(EntryConditionTest, ends_the_scan_at_an_entry_that_is_behind_the_range) {
  session_->entry_condition = [](uint32_t a) { return a < 3 ? Verdict::kPasses : Verdict::kBehindRange; };
  EXPECT_THAT(ids(), ElementsAre(0, 1, 2));
  EXPECT_EQ(looked_up_, 3);
}

TEST_F(EntryConditionTest, interrupts_the_statement_that_it_stops) {
  session_->entry_condition = [](uint32_t a) { return a < 3 ? Verdict::kPasses : Verdict::kStop; };
  (void)ids();
  EXPECT_EQ(status_.code(), Code::kInterrupted);
}

TEST_F(EntryConditionTest, a_filter_on_primary_keys_spares_lookups_too) {
  session_->row_filter = [&](const std::string &key) {
    return key == table_.key(*layout_, kPrimary, row_of(5), 1) ? Verdict::kPasses : Verdict::kRefused;
  };
  EXPECT_THAT(ids(), ElementsAre(5));
  EXPECT_EQ(looked_up_, 1);
}

TEST_F(EntryConditionTest, a_filter_is_not_asked_of_entries_that_lack_a_part_of_a_column) {
  Layout::Columns columns;
  columns.row = std::make_shared<codec::RowCodec>(layout_->row());
  columns.stored = {0, 1, 2};
  columns.primary = kPrimary;
  for (size_t index = 0; index < kIndexes; index++) columns.indexes.push_back(layout_->index(index));
  columns.indexes[kSecondary].cut_fields = {1};
  session_->open_table.set_layout(
      std::make_shared<const Layout>(layout_->def_ptr(), layout_->family(), std::move(columns)));
  session_->row_filter = [](const std::string &) { return Verdict::kRefused; };
  EXPECT_EQ(ids().size(), 20);
}

}  // namespace
}  // namespace atoll::table
