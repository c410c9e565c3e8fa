// Goal:   an ALTER takes in rows that are stored in pieces, and leaves no piece of a row that was removed.
//         While it builds an index, its log of changes holds only that part of a long value that the index
//         stores.
// Method: a table with one BLOB and a writer. During the ALTER small rows become large ones, and the reverse.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

#include "table/online/test_alter.h"
#include "table/write/large_rows_fixture.h"

namespace atoll::table {
namespace {

using Bodies = std::map<uint32_t, std::string>;  // by id

constexpr size_t kLarge = codec::kLargeRowBytes + 1;

class OnlineLargeRowsTest : public LargeRowsFixture {
 protected:
  void TearDown() override {
    session_.reset();
    alter_.reset();
  }
  TestAlter &begin_alter(Built built, std::shared_ptr<const Layout> altered, std::vector<size_t> indexes) {
    alter_ = std::make_unique<TestAlter>(database_.operator->(), built, layout_, std::move(altered),
                                         std::move(indexes), table_.record_length());
    log_ = alter_->online();
    begin();
    return *alter_;
  }
  TestAlter &begin_move() {
    std::shared_ptr<const Layout> moved;
    EXPECT_TRUE(move_to_own_family(&moved).ok());
    return begin_alter(Built::kMove, moved, {0});
  }
  TestAlter &begin_index() {
    return begin_alter(Built::kIndexes, table_.indexed_layout(layout_->family()), {kBodyIndex});
  }

  // Returns the rows of the altered table. Tests compare them with EXPECT_TRUE, because EXPECT_EQ would print
  // whole rows of several MiB.
  Bodies altered_rows() {
    const Layout &altered = *alter_->altered;
    Bodies rows;
    for (const std::string &key : stored_rows()) {
      std::string buffer;
      std::string_view row;
      const std::string value = database_.get(altered.family(), key);
      EXPECT_TRUE(whole_row_at(altered, nullptr, key, value, &buffer, &row).ok());
      EXPECT_TRUE(altered.row().unpack(row, nullptr, session_->record()).ok());
      rows[table_.id(session_->record())] = table_.body(session_->record());
    }
    return rows;
  }
  uint64_t altered_pieces() {
    uint64_t count = 0;
    EXPECT_TRUE(count_row_pieces(*alter_->altered, UINT64_MAX, &count).ok());
    return count;
  }
  uint64_t log_bytes() {
    uint64_t bytes = 0;
    const auto it = database_->temp_family()->iterator(rocksdb::ReadOptions());
    for (it->SeekToFirst(); it->Valid(); it->Next()) bytes += it->key().size() + it->value().size();
    return bytes;
  }
  std::set<std::string> body_entries(const Bodies &rows) {
    std::set<std::string> entries;
    std::string entry, value;
    bool has_null = false;
    for (const auto &[id, body] : rows) {
      const codec::testing::Record record = table_.record(id, body);
      alter_->altered->secondary_entry(kBodyIndex, record.data(), key(id), &entry, &value, &has_null);
      entries.insert(entry);
    }
    return entries;
  }

  static constexpr size_t kBodyIndex = 1;
  std::unique_ptr<TestAlter> alter_;

 private:
  std::set<std::string> stored_rows() {
    std::set<std::string> keys;
    const IndexLayout &primary = alter_->altered->primary_index();
    for (const std::string &key : stored(*alter_->altered))
      if (primary.start <= key && key < primary.end) keys.insert(key);
    return keys;
  }
};

TEST_F(OnlineLargeRowsTest, an_index_has_the_entries_of_rows_in_pieces) {
  for (uint32_t id = 1; id <= 4; id++) ASSERT_ATOLL_OK(insert(id, text(kLarge, static_cast<char>('a' + id))));
  commit();
  TestAlter &alter = begin_index();
  ASSERT_ATOLL_OK(update(1, text(kLarge, 'x')));
  ASSERT_ATOLL_OK(update(2, "short"));
  commit();
  ASSERT_ATOLL_OK(alter.fill());
  ASSERT_ATOLL_OK(remove(3));
  ASSERT_ATOLL_OK(insert(5, text(2 * kLarge, 'y')));
  commit();
  ASSERT_ATOLL_OK(alter.finish());
  EXPECT_EQ(stored(*alter.altered, kBodyIndex),
            body_entries({{1, text(20, 'x')}, {2, "short"}, {4, text(20, 'a' + 4)}, {5, text(20, 'y')}}));
}

TEST_F(OnlineLargeRowsTest, the_log_of_an_index_holds_no_more_of_a_value_than_its_entries) {
  begin_index();
  ASSERT_ATOLL_OK(insert(1, text(1 << 20, 'a')));
  ASSERT_ATOLL_OK(update(1, text(1 << 20, 'b')));
  const std::string same_start = text(1 << 20, 'b') + "more";
  commit();
  const uint64_t before = log_bytes();
  EXPECT_LT(before, 300);
  ASSERT_ATOLL_OK(update(1, same_start));
  commit();
  EXPECT_EQ(log_bytes(), before);
}

TEST_F(OnlineLargeRowsTest, a_moved_row_loses_its_pieces_when_it_changes) {
  for (uint32_t id = 1; id <= 3; id++) ASSERT_ATOLL_OK(insert(id, text(kLarge, 'a')));
  commit();
  const uint64_t all = pieces();
  TestAlter &alter = begin_move();
  ASSERT_ATOLL_OK(alter.fill());
  EXPECT_EQ(altered_pieces(), all);
  ASSERT_ATOLL_OK(update(1, "short"));
  ASSERT_ATOLL_OK(remove(2));
  commit();
  ASSERT_ATOLL_OK(alter.finish());
  EXPECT_TRUE(altered_rows() == (Bodies{{1, "short"}, {3, text(kLarge, 'a')}}));
  EXPECT_EQ(altered_pieces(), all / 3);
}

TEST_F(OnlineLargeRowsTest, a_large_row_that_comes_while_the_table_moves_is_moved_whole) {
  ASSERT_ATOLL_OK(insert(1, "short"));
  commit();
  TestAlter &alter = begin_move();
  ASSERT_ATOLL_OK(alter.fill());
  ASSERT_ATOLL_OK(update(1, text(kLarge, 'a')));
  ASSERT_ATOLL_OK(insert(2, text(kLarge, 'b')));
  commit();
  ASSERT_ATOLL_OK(alter.finish());
  EXPECT_TRUE(altered_rows() == (Bodies{{1, text(kLarge, 'a')}, {2, text(kLarge, 'b')}}));
  EXPECT_EQ(altered_pieces(), 0);
}

TEST_F(OnlineLargeRowsTest, large_rows_are_stored_whole_while_rows_get_other_keys) {
  TestAlter &alter = begin_alter(Built::kNumbers, table_.numbered_layout(layout_->family()), {});
  ASSERT_ATOLL_OK(insert(1, text(kLarge, 'a')));
  commit();
  EXPECT_EQ(pieces(), 0);
  ASSERT_ATOLL_OK(alter.fill());
  ASSERT_ATOLL_OK(alter.finish());
  EXPECT_TRUE(altered_rows() == (Bodies{{1, text(kLarge, 'a')}}));
}

TEST_F(OnlineLargeRowsTest, a_replay_that_is_interrupted_goes_on_where_it_was) {
  TestAlter &alter = begin_move();
  ASSERT_ATOLL_OK(alter.fill());
  Bodies rows;
  for (uint32_t id = 1; id <= 5; id++) {  // a replay applies at least 1 MiB at a time, here three rows
    rows[id] = text(400 << 10, static_cast<char>(id));
    ASSERT_ATOLL_OK(insert(id, rows[id]));
  }
  commit();
  alter.view.unwanted = true;
  EXPECT_EQ(alter.replay().code(), Code::kInterrupted);
  EXPECT_EQ(database_.count(database_->temp_family()), 2);
  alter.view.unwanted = false;
  ASSERT_ATOLL_OK(alter.finish());
  EXPECT_TRUE(altered_rows() == rows);
}

}  // namespace
}  // namespace atoll::table
