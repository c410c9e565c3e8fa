// Goal:   a cursor is opened once and used again as long as it shows the same entries as a new cursor. A
//         consistent read shows those of its snapshot, a locking read the newest ones, and both own writes.
// Method: one session reads, another one commits; the test counts the cursors that are opened.
#include "table/entry_cursor.h"

#include <gmock/gmock.h>

#include "table/testing/two_sessions.h"

namespace atoll::table {
namespace {

using ::testing::ElementsAre;

Row row_of(uint32_t number) { return {number, number, number}; }

class EntryCursorTest : public TwoSessionsTest<> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(TwoSessionsTest::SetUp());
    commit_rows({row_of(10), row_of(20), row_of(30)});
    cursor_ = std::make_unique<EntryCursor>(one_->open_table);
  }
  std::string key(uint32_t id) const { return table_.key(*layout_, kPrimary, row_of(id), 1); }
  Bounds all(size_t index = kPrimary) const {
    return {layout_->index(index).start, layout_->index(index).end};
  }
  // Returns the row's number, which is the last part of the key under the cursor.
  uint32_t number() const {
    const std::string_view key = cursor_->key();
    return static_cast<uint32_t>(
        load_be_bytes(reinterpret_cast<const uint8_t *>(key.data()) + key.size() - 4, 4));
  }
  // Returns the numbers that a search from the start of `bounds` shows, and counts the cursors opened for it.
  std::vector<uint32_t> shown(const Bounds &bounds) {
    std::vector<uint32_t> numbers;
    opened_ = work_of(WorkKind::kCursorsOpened, [&] { cursor_->open(bounds); });
    for (cursor_->seek(bounds.lower, true); cursor_->valid(); cursor_->step(true))
      numbers.push_back(number());
    EXPECT_EQ(cursor_->status().code(), Code::kOk);
    return numbers;
  }

  std::unique_ptr<EntryCursor> cursor_;
  uint64_t opened_ = 0;
};

TEST_F(EntryCursorTest, one_cursor_serves_the_searches_of_all_indexes) {
  EXPECT_THAT(shown(all(kSecondary)), ElementsAre(10, 20, 30));
  EXPECT_EQ(opened_, 1);
  EXPECT_THAT(shown({key(20), key(30)}), ElementsAre(20));
  EXPECT_EQ(opened_, 0);
  cursor_->close();
  EXPECT_FALSE(cursor_->is_open());
  EXPECT_THAT(shown(all()), ElementsAre(10, 20, 30));
  EXPECT_EQ(opened_, 1);
}

TEST_F(EntryCursorTest, a_plain_read_shows_its_snapshot_however_often_it_searches) {
  EXPECT_FALSE(one_->transaction()->has_snapshot());
  (void)shown(all());
  EXPECT_TRUE(one_->transaction()->has_snapshot());
  commit_rows({row_of(15)});
  EXPECT_THAT(shown(all()), ElementsAre(10, 20, 30));
  EXPECT_EQ(opened_, 0);
}

TEST_F(EntryCursorTest, a_read_with_locks_shows_what_others_have_committed_since) {
  set_lock(one_.get(), RowLock::kExclusive);
  EXPECT_THAT(shown(all()), ElementsAre(10, 20, 30));
  EXPECT_FALSE(one_->transaction()->has_snapshot());
  EXPECT_TRUE(cursor_->has_seen_all_commits());
  commit_rows({row_of(15)});
  EXPECT_FALSE(cursor_->has_seen_all_commits());
  EXPECT_THAT(shown(all()), ElementsAre(10, 15, 20, 30));
  EXPECT_TRUE(cursor_->has_seen_all_commits());
}

TEST_F(EntryCursorTest, own_writes_are_shown_by_the_next_search) {
  for (const RowLock lock : {RowLock::kNone, RowLock::kExclusive}) {
    set_lock(one_.get(), lock);
    EXPECT_THAT(shown(all()), ElementsAre(10, 20, 30));
    EXPECT_FALSE(cursor_->has_own_writes());
    ASSERT_ATOLL_OK(insert(one_.get(), row_of(15)));
    EXPECT_TRUE(cursor_->has_later_own_writes());
    EXPECT_THAT(shown(all()), ElementsAre(10, 15, 20, 30));
    EXPECT_FALSE(cursor_->has_later_own_writes());
    EXPECT_TRUE(cursor_->has_own_writes());
    cursor_->close();
    one_->rollback();
  }
}

TEST_F(EntryCursorTest, an_estimate_takes_no_snapshot_and_leaves_no_cursor_to_a_read) {
  cursor_->open_for_estimates(all());
  EXPECT_TRUE(cursor_->is_for_estimates());
  EXPECT_FALSE(one_->transaction()->has_snapshot());
  commit_rows({row_of(15)});
  EXPECT_EQ(work_of(WorkKind::kCursorsOpened, [&] { cursor_->open_for_estimates(all()); }), 0);
  EXPECT_THAT(shown(all()), ElementsAre(10, 15, 20, 30));
  EXPECT_FALSE(cursor_->is_for_estimates());
  EXPECT_TRUE(one_->transaction()->has_snapshot());
}

TEST_F(EntryCursorTest, a_search_backwards_begins_before_its_key_and_without_one_at_the_end) {
  cursor_->open(all());
  cursor_->seek(key(20), false);
  EXPECT_EQ(number(), 20);
  cursor_->seek_start(key(20), false);
  EXPECT_EQ(number(), 10);
  cursor_->seek_start(key(25), false);
  EXPECT_EQ(number(), 20);
  cursor_->seek_start("", false);
  EXPECT_EQ(number(), 30);
  cursor_->seek_start(key(20), true);
  EXPECT_EQ(number(), 20);
  cursor_->seek_start(key(10), false);
  EXPECT_FALSE(cursor_->valid());
}

}  // namespace
}  // namespace atoll::table
