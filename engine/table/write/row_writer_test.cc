// Goal:   a RowWriter writes each row with exactly its index entries, and only the entries that change. After
//         a duplicate it names the index. Writers of one key wait for each other. A change log gets each
//         change.
// Method: short scenes of one or two transactions in a real database. The test compares the committed keys
//         one by one, and counts writes and locks. (row_cursor_test.cc has writers and readers at random.)
#include "table/write/row_writer.h"

#include <gmock/gmock.h>

#include <tuple>
#include <vector>

#include "table/testing/two_sessions.h"

namespace atoll::table {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RowWriterTest : public TwoSessionsTest<> {
 protected:
  // Writes a row as a statement does, but after an error it does not roll back the writes made so far.
  Status write(Session *session, const std::optional<Row> &now, const Row &row) {
    const codec::testing::Record record = table_.record(row);
    if (!now) return session->writer.insert(record.data(), 0);
    return session->writer.update(table_.record(*now).data(), record.data(), 0, &session->updated);
  }
  // `change` makes `writes` writes. Lets `change` fail before each of them in turn, by a limit on the bytes
  // that a transaction may write. Rolls back each time, and checks that no write is left. Then lets `change`
  // succeed.
  void expect_every_error_undone(uint64_t writes, const std::function<Status()> &change) {
    txn::Transaction &transaction = *one_->transaction();
    std::set<uint64_t> left_behind;
    Status status(Code::kInvalid, "");
    for (uint64_t bytes_max = 1; status.code() == Code::kInvalid; bytes_max += 16) {
      ASSERT_LT(bytes_max, 10000);
      manager_->set_write_bytes_max(bytes_max);
      const size_t savepoint = transaction.set_savepoint();
      status = change();
      if (status.ok()) break;
      left_behind.insert(transaction.write_count());
      ASSERT_ATOLL_OK(transaction.rollback_to_savepoint(savepoint));
      transaction.release_savepoint(savepoint);
      ASSERT_EQ(transaction.write_count(), 0);
    }
    ASSERT_TRUE(status.ok()) << status.message();
    manager_->set_write_bytes_max(0);
    EXPECT_EQ(left_behind.size(), writes);  // the failures left 0, 1, ... writes for the rollback
    EXPECT_EQ(*left_behind.rbegin(), writes - 1);
    EXPECT_EQ(transaction.write_count(), writes);
  }
  uint64_t writes_of_update(const Row &now, const Row &row) {
    return work_of(WorkKind::kWrites, [&] { ASSERT_ATOLL_OK(update(one_.get(), now, row)); });
  }
};

TEST_F(RowWriterTest, each_change_leaves_a_row_with_one_entry_in_each_index) {
  const Row first{1, 10, 100}, changed{1, 11, std::nullopt}, again{1, 11, 100}, moved{2, 11, 100};
  ASSERT_ATOLL_OK(insert(one_.get(), first));
  std::optional<Row> now = first;
  for (const std::optional<Row> &next :
       {std::optional(changed), std::optional(again), std::optional(moved)}) {
    expect_rows(one_.get(), {*now});
    commit(one_.get());
    EXPECT_EQ(stored(*layout_), keys({*now}));
    ASSERT_ATOLL_OK(update(one_.get(), *now, *next));
    now = next;
  }
  expect_rows(one_.get(), {moved});
  commit(one_.get());
  EXPECT_EQ(stored(*layout_), keys({moved}));
  ASSERT_ATOLL_OK(remove(one_.get(), moved));
  expect_rows(one_.get(), {});
  commit(one_.get());
  EXPECT_THAT(stored(*layout_), IsEmpty());
}

TEST_F(RowWriterTest, writes_only_the_entries_that_change) {
  const Row row{1, 10, 100}, other_u{1, 10, 101}, other_a{1, 11, 101}, other_id{2, 11, 101};
  EXPECT_EQ(work_of(WorkKind::kWrites, [&] { ASSERT_ATOLL_OK(insert(one_.get(), row)); }), 3);
  EXPECT_EQ(writes_of_update(row, other_u), 3);       // the row, the old entry of u, the new entry of u
  EXPECT_EQ(writes_of_update(other_u, other_a), 3);   // the row, the old entry of a, the new entry of a
  EXPECT_EQ(writes_of_update(other_a, other_id), 6);  // the old and the new row, and both entries of a and u
  EXPECT_EQ(work_of(WorkKind::kWrites, [&] { ASSERT_ATOLL_OK(remove(one_.get(), other_id)); }), 3);
}

TEST_F(RowWriterTest, an_update_to_the_same_values_is_said_to_be_one_and_writes_nothing) {
  commit_rows({{1, 10, 100}});
  ASSERT_ATOLL_OK(write(one_.get(), Row{1, 10, 100}, {1, 10, 100}));
  EXPECT_EQ(one_->updated, RowWriter::Updated::kSame);
  EXPECT_EQ(one_->transaction()->write_count(), 0);
}

TEST_F(RowWriterTest, a_duplicate_names_its_key_and_writes_nothing) {
  const Row first{1, 10, 100}, second{2, 20, 200};
  commit_rows({first, second});
  const std::tuple<std::optional<Row>, Row, size_t> cases[] = {
      {std::nullopt, {1, 30, 300}, kPrimary}, {std::nullopt, {3, 30, 100}, kUnique},
      {std::nullopt, {1, 30, 200}, kPrimary},  // of two duplicates it names the index that is checked first
      {second, {1, 20, 200}, kPrimary},       {second, {2, 20, 100}, kUnique},
      {second, {3, 20, 100}, kUnique}};
  for (const auto &[now, row, index] : cases) {
    SCOPED_TRACE(::testing::PrintToString(row));
    EXPECT_EQ(write(one_.get(), now, row).code(), Code::kDuplicate);
    EXPECT_EQ(one_->writer.duplicate_index(), index);
    EXPECT_EQ(one_->transaction()->write_count(), 0);
  }
}

TEST_F(RowWriterTest, rows_with_null_in_a_unique_key_are_no_duplicates_and_do_not_wait) {
  const Row first{1, 10, std::nullopt}, second{2, 10, std::nullopt}, third{3, 10, 300};
  ASSERT_ATOLL_OK(insert(one_.get(), first));
  ASSERT_ATOLL_OK(insert(other_.get(), second));
  ASSERT_ATOLL_OK(insert(other_.get(), third));
  ASSERT_ATOLL_OK(update(other_.get(), third, {3, 10, std::nullopt}));
  commit(one_.get());
  commit(other_.get());
  expect_rows(one_.get(), {first, second, {3, 10, std::nullopt}});
}

TEST_F(RowWriterTest, a_transaction_can_take_a_key_that_it_has_freed) {
  commit_rows({{1, 10, 100}, {2, 20, 200}});
  ASSERT_ATOLL_OK(update(one_.get(), {1, 10, 100}, {1, 10, std::nullopt}));  // two rows exchange their `u`
  ASSERT_ATOLL_OK(update(one_.get(), {2, 20, 200}, {2, 20, 100}));
  ASSERT_ATOLL_OK(update(one_.get(), {1, 10, std::nullopt}, {1, 10, 200}));
  ASSERT_ATOLL_OK(remove(one_.get(), {2, 20, 100}));
  ASSERT_ATOLL_OK(insert(one_.get(), {2, 21, 100}));
  ASSERT_ATOLL_OK(update(one_.get(), {2, 21, 100}, {3, 21, 100}));
  ASSERT_ATOLL_OK(insert(one_.get(), {2, 22, 201}));
  const std::vector<Row> rows = {{1, 10, 200}, {2, 22, 201}, {3, 21, 100}};
  expect_rows(one_.get(), rows);
  commit(one_.get());
  EXPECT_EQ(stored(*layout_), keys(rows));
}

TEST_F(RowWriterTest, an_update_locks_only_the_unique_keys_that_it_takes) {
  const Row row{1, 10, 100}, other_a{1, 11, 100}, other_u{1, 11, 101};
  commit_rows({row});
  const std::string row_key = table_.key(*layout_, kPrimary, row, 1);
  ASSERT_ATOLL_OK(update(one_.get(), row, other_a));
  EXPECT_THAT(locked_keys(*one_), ElementsAre(row_key));
  ASSERT_ATOLL_OK(update(one_.get(), other_a, other_u));
  EXPECT_THAT(locked_keys(*one_), ElementsAre(row_key, table_.key(*layout_, kUnique, other_u, 1)));
}

// Each write of a row fails once, because a limit on the memory of a transaction's writes is reached.
TEST_F(RowWriterTest, what_an_error_leaves_of_a_row_goes_with_the_rollback) {
  const Row row{1, 10, 100}, moved{2, 20, 200};
  expect_every_error_undone(3, [&] { return write(one_.get(), std::nullopt, row); });
  commit(one_.get());
  expect_every_error_undone(6, [&] { return write(one_.get(), row, moved); });
  expect_rows(one_.get(), {moved});
  commit(one_.get());
  expect_every_error_undone(3, [&] { return one_->writer.remove(table_.record(moved).data(), 0); });
  expect_rows(one_.get(), {});
}

// Notes the indexes for which it is asked, and refuses rows with `a` == 13 when it is asked for their index.
class TestCheck final : public RowCheck {
 public:
  explicit TestCheck(const TestTable &table) : table_(table) {}
  Status check(int index, const uint8_t *old_record, const uint8_t *new_record) override {
    asked.push_back(old_record == nullptr ? index : 10 + index);
    const bool refuses = index == static_cast<int>(kSecondary) && table_.row(new_record).a == 13;
    return refuses ? Status(Code::kForeignKey, "") : Status::Ok();
  }
  std::vector<int> asked;

 private:
  const TestTable &table_;
};

TEST_F(RowWriterTest, a_check_is_asked_before_the_unique_key_of_each_index) {
  commit_rows({{1, 10, 100}});
  TestCheck check(table_);
  one_->writer.set_check(&check);
  EXPECT_EQ(write(one_.get(), std::nullopt, {1, 13, 200}).code(), Code::kDuplicate);
  EXPECT_THAT(check.asked, ElementsAre(kPrimary)) << "the duplicate was found first";
  check.asked.clear();
  EXPECT_EQ(write(one_.get(), std::nullopt, {2, 13, 100}).code(), Code::kForeignKey);
  EXPECT_THAT(check.asked, ElementsAre(kPrimary, kSecondary)) << "the duplicate comes later";
  EXPECT_EQ(write(one_.get(), Row{1, 10, 100}, {1, 13, 100}).code(), Code::kForeignKey);
  EXPECT_EQ(one_->transaction()->write_count(), 0);
  check.asked.clear();
  ASSERT_ATOLL_OK(write(one_.get(), Row{1, 10, 100}, {1, 11, 100}));
  EXPECT_THAT(check.asked, ElementsAre(10 + kPrimary, 10 + kSecondary, 10 + kUnique));
  check.asked.clear();
  ASSERT_ATOLL_OK(write(one_.get(), Row{1, 11, 100}, {1, 11, 100}));
  EXPECT_THAT(check.asked, IsEmpty()) << "nothing changes";
}

// ---- Two writers of one key ----------------------------------------------------------------------

class WritersOfOneKey : public TwoSessionsTest<::testing::TestWithParam<std::tuple<size_t, bool>>> {
 protected:
  size_t index() const { return std::get<0>(GetParam()); }
  void end(Session *session) { std::get<1>(GetParam()) ? commit(session) : session->rollback(); }
  // Returns a row that has the same key as `first_` in the tested index, and other keys in all other indexes.
  Row twin() const { return index() == kPrimary ? Row{1, 20, 200} : Row{2, 20, 100}; }
  void expect_to_wait_and_write_nothing(const Row &row) {
    EXPECT_EQ(insert(other_.get(), row).code(), Code::kLockTimeout);
    EXPECT_EQ(other_->transaction()->write_count(), 0);
  }

  const Row first_{1, 10, 100};
};

TEST_P(WritersOfOneKey, an_insert_waits_for_an_insert) {
  ASSERT_ATOLL_OK(insert(one_.get(), first_));
  expect_to_wait_and_write_nothing(twin());
  end(one_.get());
  const bool is_taken = std::get<1>(GetParam());
  EXPECT_EQ(insert(other_.get(), twin()).code(), is_taken ? Code::kDuplicate : Code::kOk);
}

TEST_P(WritersOfOneKey, an_insert_waits_for_a_delete) {
  commit_rows({first_});
  ASSERT_ATOLL_OK(remove(one_.get(), first_));
  expect_to_wait_and_write_nothing(twin());
  end(one_.get());
  const bool is_free = std::get<1>(GetParam());
  EXPECT_EQ(insert(other_.get(), twin()).code(), is_free ? Code::kOk : Code::kDuplicate);
}

// One transaction has searched for a key without finding it, and so has locked its range. The insert of
// another transaction waits for this range lock. The first transaction must still be able to insert the key.
TEST_P(WritersOfOneKey, an_insert_that_waits_for_a_search_does_not_lock_its_key) {
  set_lock(one_.get(), RowLock::kExclusive);
  std::vector<Row> rows;
  ASSERT_ATOLL_OK(read(one_.get(), {index(), exact(index(), first_)}, &rows));
  ASSERT_THAT(rows, IsEmpty());
  expect_to_wait_and_write_nothing(twin());
  EXPECT_FALSE(locked_keys(*other_).contains(table_.key(*layout_, index(), first_, 1)));
  ASSERT_ATOLL_OK(insert(one_.get(), first_));
  end(one_.get());
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<size_t, bool>> &info) {
  return std::string(std::get<0>(info.param) == kPrimary ? "the_primary_key" : "a_unique_key") +
         (std::get<1>(info.param) ? "_and_a_commit" : "_and_a_rollback");
}
INSTANTIATE_TEST_SUITE_P(of, WritersOfOneKey,
                         ::testing::Combine(::testing::Values(kPrimary, kUnique), ::testing::Bool()),
                         name_of);

// ---- Without a primary key -----------------------------------------------------------------------

class RowsWithoutPrimaryKey : public StoredTableTest<TestTable> {
 protected:
  static constexpr size_t kA = 0, kU = 1;

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(StoredTableTest::SetUp());
    layout_ = table_.layout_without_primary(layout_->family());
    session_ = std::make_unique<PlainSession>(layout_, table_.record_length(), manager_.get());
  }
  std::set<std::string> keys(const Row &row, uint64_t hidden_id) const {
    const codec::testing::Record record = table_.record(row);
    std::string primary, a, u;
    bool has_null = false;
    layout_->primary_key(record.data(), hidden_id, &primary);
    layout_->secondary_entry(kA, record.data(), primary, &a, nullptr, &has_null);
    layout_->secondary_entry(kU, record.data(), primary, &u, nullptr, &has_null);
    return {primary, a, u};
  }
  Status insert(const Row &row, uint64_t hidden_id) {
    return session_->writer.insert(table_.record(row).data(), hidden_id);
  }

  std::unique_ptr<PlainSession> session_;
};

TEST_F(RowsWithoutPrimaryKey, equal_rows_are_told_apart_by_their_hidden_ids) {
  const Row row{1, 10, std::nullopt}, changed{1, 20, std::nullopt};
  for (const uint64_t id : {7, 8, 9}) ASSERT_ATOLL_OK(insert(row, id));
  ASSERT_ATOLL_OK(session_->writer.remove(table_.record(row).data(), 8));
  ASSERT_ATOLL_OK(session_->writer.update(table_.record(row).data(), table_.record(changed).data(), 9,
                                          &session_->updated));
  ASSERT_ATOLL_OK(session_->transaction()->commit(false));
  std::set<std::string> expected = keys(row, 7);
  expected.merge(keys(changed, 9));
  EXPECT_EQ(stored(*layout_), expected);
}

TEST_F(RowsWithoutPrimaryKey, unique_keys_count_all_the_same) {
  ASSERT_ATOLL_OK(insert({1, 10, 100}, 7));
  EXPECT_EQ(insert({2, 20, 100}, 8).code(), Code::kDuplicate);
  EXPECT_EQ(session_->writer.duplicate_index(), kU);
}

TEST_F(RowsWithoutPrimaryKey, a_new_row_is_locked_for_scans_of_others) {
  ASSERT_ATOLL_OK(insert({1, 10, std::nullopt}, 7));
  const txn::LockKey row{layout_->family()->id(), session_->open_table.row_key()};
  const auto owner = session_->transaction()->lock_owner();
  EXPECT_TRUE(manager_->locks()->holds(owner, row, txn::LockMode::kExclusive));
}

// ---- The log of changes --------------------------------------------------------------------------

class TestLog final : public ChangeLog {
 public:
  explicit TestLog(const TestTable &table) : table_(table) {}

  // An image is a row and its primary key; empty: there is no row. `changes` has a pair for each change: the
  // image before and the image after.
  using Image = std::optional<std::pair<Row, std::string>>;
  std::vector<std::pair<Image, Image>> changes;
  Status answer;

  Status log(txn::Transaction *, const RowImage &before, const RowImage &after) override {
    changes.emplace_back(image(before), image(after));
    return answer;
  }
  bool needs_whole_rows() const override { return false; }

 private:
  Image image(const RowImage &image) const {
    if (image.record == nullptr) return std::nullopt;
    return std::pair(table_.row(image.record), *image.primary_key);
  }
  const TestTable &table_;
};

class ChangeLogTest : public RowWriterTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(RowWriterTest::SetUp());
    one_->writer.set_log(&log_);
  }
  TestLog::Image image(const Row &row) const {
    return std::pair(row, table_.key(*layout_, kPrimary, row, 1));
  }

  TestLog log_{table_};
};

TEST_F(ChangeLogTest, learns_of_each_change_as_it_was_and_as_it_is) {
  const Row row{1, 10, 100}, moved{2, 10, 100};
  ASSERT_ATOLL_OK(insert(one_.get(), row));
  ASSERT_ATOLL_OK(update(one_.get(), row, moved));
  ASSERT_ATOLL_OK(remove(one_.get(), moved));
  const TestLog::Image none;
  EXPECT_THAT(log_.changes, ElementsAre(std::pair(none, image(row)), std::pair(image(row), image(moved)),
                                        std::pair(image(moved), none)));
  one_->writer.set_log(nullptr);
  ASSERT_ATOLL_OK(insert(one_.get(), row));
  EXPECT_EQ(log_.changes.size(), 3);
}

TEST_F(ChangeLogTest, learns_of_nothing_that_is_not_written) {
  commit_rows({{1, 10, 100}});
  EXPECT_EQ(insert(one_.get(), {1, 20, 200}).code(), Code::kDuplicate);
  ASSERT_ATOLL_OK(update(one_.get(), {1, 10, 100}, {1, 10, 100}));
  EXPECT_THAT(log_.changes, IsEmpty());
}

TEST_F(ChangeLogTest, its_error_is_that_of_the_change) {
  commit_rows({{1, 10, 100}});
  log_.answer = Status(Code::kNoSpace, "");
  EXPECT_EQ(insert(one_.get(), {2, 20, 200}).code(), Code::kNoSpace);
  EXPECT_EQ(update(one_.get(), {1, 10, 100}, {1, 20, 200}).code(), Code::kNoSpace);
  EXPECT_EQ(remove(one_.get(), {1, 10, 100}).code(), Code::kNoSpace);
}

}  // namespace
}  // namespace atoll::table
