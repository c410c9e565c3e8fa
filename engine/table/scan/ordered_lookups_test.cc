// Goal:   lookups in ascending order find the same rows as lookups one by one, and cost steps of a cursor
//         instead of lookups. Keys in no order, keys far apart and deleted rows cost what they cost before.
// Method: a session on a table in a real database reads rows by their primary keys.
#include "table/scan/ordered_lookups.h"

#include <gmock/gmock.h>

#include "table/row_cursor.h"
#include "table/testing/two_sessions.h"

namespace atoll::table {
namespace {

using Found = RowCursor::Found;

class OrderedLookupsTest : public TwoSessionsTest<> {
 protected:
  static constexpr uint32_t kRows = 400;

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(TwoSessionsTest::SetUp());
    std::vector<Row> rows;
    for (uint32_t id = 1; id <= kRows; id++) rows.push_back({2 * id, id});
    commit_rows(rows);
  }
  std::optional<Row> get(Session *session, uint32_t id) {
    RowCursor &cursor = session->cursor;
    cursor.begin_index(kPrimary);
    Found found = Found::kNone;
    const std::string key = table_.key(*layout_, kPrimary, {id}, 1);
    EXPECT_TRUE(cursor.get(key, false, session->record(), &found).ok());
    return found == Found::kRow ? std::optional(table_.row(session->record())) : std::nullopt;
  }
  // Looks up `ids`, and checks that each even one has its row. Returns how many lookups it took.
  uint64_t lookups(const std::vector<uint32_t> &ids) {
    return work_of(WorkKind::kPointGets, [&] {
      for (const uint32_t id : ids) {
        const std::optional<Row> row = get(one_.get(), id);
        const bool exists = id % 2 == 0 && id > 0 && id <= 2 * kRows;
        EXPECT_EQ(row, exists ? std::optional(Row{id, id / 2}) : std::nullopt) << id;
      }
    });
  }
  static std::vector<uint32_t> ids(uint32_t first, uint32_t last, uint32_t step) {
    std::vector<uint32_t> all;
    for (uint32_t id = first; id <= last; id += step) all.push_back(id);
    return all;
  }
};

TEST_F(OrderedLookupsTest, neighbours_in_ascending_order_take_few_lookups) {
  EXPECT_LE(lookups(ids(2, 2 * kRows, 2)), OrderedLookups::kKeysMin);
}

TEST_F(OrderedLookupsTest, keys_without_a_row_and_keys_that_repeat_are_found_by_the_cursor_too) {
  EXPECT_LE(lookups(ids(1, 2 * kRows + 40, 1)), OrderedLookups::kKeysMin);
  one_->cursor.end_statement();
  std::vector<uint32_t> twice;
  for (const uint32_t id : ids(2, 200, 2)) twice.insert(twice.end(), {id, id});
  EXPECT_LE(lookups(twice), OrderedLookups::kKeysMin);
}

TEST_F(OrderedLookupsTest, keys_in_no_order_are_looked_up) {
  std::vector<uint32_t> all = ids(2, 2 * kRows, 2);
  for (size_t i = 0; i < all.size(); i++) std::swap(all[i], all[i * 7919 % all.size()]);
  EXPECT_GE(lookups(all), all.size() * 9 / 10);
  one_->cursor.end_statement();
  std::reverse(all.begin(), all.end());
  std::sort(all.begin(), all.end(), std::greater<>());
  EXPECT_EQ(lookups(all), all.size());
}

TEST_F(OrderedLookupsTest, keys_far_apart_cost_few_searches) {
  const std::vector<uint32_t> far = ids(2, 2 * kRows, 10);
  const uint64_t searches = work_of(WorkKind::kCursorSeeks, [&] { EXPECT_GE(lookups(far), far.size() - 4); });
  EXPECT_LE(searches, 3u) << "after 16, 32 and 64 keys";
}

TEST_F(OrderedLookupsTest, rows_between_which_many_were_deleted_are_looked_up) {
  for (uint32_t id = 1; id <= kRows; id++)
    if (id % 50 != 0) ASSERT_ATOLL_OK(remove(other_.get(), {2 * id, id}));
  commit(other_.get());
  for (uint32_t id = 900; id < 1000; id += 2) ASSERT_ATOLL_OK(insert(other_.get(), {id, id}));
  commit(other_.get());
  const uint64_t gets = work_of(WorkKind::kPointGets, [&] {
    for (uint32_t id = 900; id < 1000; id += 2) EXPECT_TRUE(get(one_.get(), id)) << id;
    one_->cursor.end_statement();
    for (uint32_t id = 1; id < 40; id++) EXPECT_FALSE(get(one_.get(), id)) << id;
    EXPECT_TRUE(get(one_.get(), 100) && get(one_.get(), 200) && get(one_.get(), 300));
  });
  EXPECT_GE(gets, 40u);
}

TEST_F(OrderedLookupsTest, own_writes_are_seen_and_others_are_not) {
  EXPECT_LE(lookups(ids(2, 200, 2)), OrderedLookups::kKeysMin);
  ASSERT_ATOLL_OK(update(other_.get(), {202, 101}, {202, 5}));
  commit(other_.get());
  EXPECT_EQ(get(one_.get(), 202), (Row{202, 101})) << "the snapshot's";
  ASSERT_ATOLL_OK(update(one_.get(), {206, 103}, {206, 7}));
  EXPECT_EQ(get(one_.get(), 204), (Row{204, 102}));
  EXPECT_EQ(get(one_.get(), 206), (Row{206, 7})) << "its own";
  for (uint32_t id = 208; id < 300; id += 2) EXPECT_EQ(get(one_.get(), id), (Row{id, id / 2}));
}

TEST_F(OrderedLookupsTest, own_writes_before_the_first_lookup_do_not_matter) {
  for (const RowLock lock : {RowLock::kNone, RowLock::kExclusive}) {
    set_lock(one_.get(), lock);
    ASSERT_ATOLL_OK(update(one_.get(), {602, 301}, {602, 9}));
    EXPECT_LE(lookups(ids(2, 200, 2)), OrderedLookups::kKeysMin);
    EXPECT_EQ(get(one_.get(), 602), (Row{602, 9})) << "its own";
    one_->cursor.end_statement();
    one_->rollback();
  }
}

TEST_F(OrderedLookupsTest, each_statement_of_handler_has_its_own_snapshot) {
  for (uint32_t i = 1; i < 2 * OrderedLookups::kKeysMin; i++) {
    one_->cursor.begin_again();
    EXPECT_EQ(get(one_.get(), 2), (Row{2, i}));
    commit(one_.get());
    ASSERT_ATOLL_OK(update(other_.get(), {2, i}, {2, i + 1}));
    commit(other_.get());
  }
}

TEST_F(OrderedLookupsTest, a_read_with_locks_sees_the_newest_rows) {
  set_lock(one_.get(), RowLock::kExclusive);
  EXPECT_LE(lookups(ids(2, 200, 2)), OrderedLookups::kKeysMin);
  ASSERT_ATOLL_OK(update(other_.get(), {302, 151}, {302, 5}));
  ASSERT_ATOLL_OK(remove(other_.get(), {304, 152}));
  commit(other_.get());
  EXPECT_EQ(get(one_.get(), 302), (Row{302, 5}));
  EXPECT_EQ(get(one_.get(), 304), std::nullopt);
  EXPECT_LE(lookups(ids(306, 400, 2)), OrderedLookups::kKeysMin) << "a new cursor";
  ASSERT_ATOLL_OK(update(one_.get(), {402, 201}, {402, 7}));
  EXPECT_EQ(get(one_.get(), 402), (Row{402, 7})) << "its own";
  EXPECT_LE(lookups(ids(404, 500, 2)), 0u) << "own writes to other rows do not matter";
}

}  // namespace
}  // namespace atoll::table
