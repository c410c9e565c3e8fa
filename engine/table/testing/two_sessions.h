// Tests only: two sessions under REPEATABLE READ on a table in a real database, with helpers to write and
// read.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/work.h"
#include "table/testing/stored_table.h"

namespace atoll::table {

// The parameters of read(): an index, the search in it, and the range that the server gives for the search.
struct Search {
  size_t index = kPrimary;
  Seek seek = {};
  std::optional<Bounds> given = {};
  size_t rows_max = SIZE_MAX;  // read() stops after this number of rows
};

template <typename Test = ::testing::Test>
class TwoSessionsTest : public StoredTableTest<TestTable, Test> {
 protected:
  using Base = StoredTableTest<TestTable, Test>;
  using Base::layout_;
  using Base::manager_;
  using Base::table_;

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Base::SetUp());
    one_ = session(true);
    other_ = session(true);
  }
  std::unique_ptr<Session> session(bool keeps_snapshot) {
    return std::make_unique<Session>(table_, layout_, manager_.get(), keeps_snapshot);
  }

  // ---- writing ----
  Status insert(Session *session, const Row &row) { return session->write(row.id, std::nullopt, row); }
  Status update(Session *session, const Row &before, const Row &after) {
    return session->write(before.id, before, after);
  }
  Status remove(Session *session, const Row &row) { return session->write(row.id, row, std::nullopt); }
  void commit(Session *session) {
    Rows committed;
    session->commit(&committed);
  }
  // Commits the rows with which the test begins.
  void commit_rows(const std::vector<Row> &rows) {
    const std::unique_ptr<Session> writer = session(true);
    for (const Row &row : rows) ASSERT_ATOLL_OK(insert(writer.get(), row));
    commit(writer.get());
  }

  // ---- reading ----
  Seek whole_index(size_t index, bool forward = true) const {
    const IndexLayout &layout = layout_->index(index);
    return {
        .key = forward ? layout.start : layout.end, .forward = forward, .reach = Seek::Reach::kWholeIndex};
  }
  // Returns the search for all rows that have the same value as `row` in the index's own part.
  Seek exact(size_t index, const Row &row) const {
    const std::string key = table_.key(*layout_, index, row, 1);
    return {.key = key, .prefix = key, .parts = 1};
  }
  // Returns the range of the index from the key of `first` up to, but without, the key of `end`.
  Bounds between(size_t index, const Row &first, const Row &end) const {
    return {table_.key(*layout_, index, first, 1), table_.key(*layout_, index, end, 1)};
  }
  void set_lock(Session *session, RowLock lock) { session->open_table.mutable_mode()->lock = lock; }

  Status read(Session *session, const Search &search, std::vector<Row> *rows) {
    RowCursor &cursor = session->cursor;
    RowCursor::Found found = RowCursor::Found::kNone;
    rows->clear();
    cursor.begin_index(search.index);
    if (search.given) cursor.bounds().give(*search.given);
    Status status = cursor.search(search.seek, session->record(), &found);
    while (status.ok() && found == RowCursor::Found::kRow) {
      rows->push_back(table_.row(session->record()));
      if (rows->size() >= search.rows_max) break;
      status = search.seek.forward ? cursor.next(session->record(), &found)
                                   : cursor.prev(session->record(), &found);
    }
    return status;
  }
  // Returns all rows that the session reads by the index, in the order of the index.
  std::vector<Row> rows_by(Session *session, size_t index, bool forward = true) {
    std::vector<Row> rows;
    EXPECT_EQ(read(session, {index, whole_index(index, forward)}, &rows).code(), Code::kOk);
    return rows;
  }
  // Checks that the session reads exactly these rows by each index.
  void expect_rows(Session *session, const std::vector<Row> &expected) {
    Rows by_id;
    for (const Row &row : expected) by_id[row.id] = row;
    for (size_t index = 0; index < kIndexes; index++) {
      std::vector<Row> in_order;
      for (const auto &[key, row] : table_.entries(*layout_, index, by_id)) in_order.push_back(row);
      EXPECT_EQ(rows_by(session, index), in_order) << "index " << index;
    }
  }

  // Returns the keys of these rows and of all their index entries.
  std::set<std::string> keys(const std::vector<Row> &rows) const {
    std::set<std::string> keys;
    for (const Row &row : rows)
      for (size_t index = 0; index < kIndexes; index++) keys.insert(table_.key(*layout_, index, row, 2));
    return keys;
  }

  // ---- locks and work ----
  std::vector<txn::LockInfo> locks(const Session &session, txn::LockKind kind) const {
    std::vector<txn::LockInfo> locks;
    for (txn::LockInfo &lock : manager_->locks()->list())
      if (lock.kind == kind && lock.transaction_id == session.transaction()->id())
        locks.push_back(std::move(lock));
    return locks;
  }
  std::set<std::string> locked_keys(const Session &session) const {
    std::set<std::string> keys;
    for (const txn::LockInfo &lock : locks(session, txn::LockKind::kRow)) keys.insert(lock.key);
    return keys;
  }
  // Returns how much work of one kind `act` causes.
  uint64_t work_of(WorkKind kind, const std::function<void()> &act) {
    const uint64_t before = work_.get()->count(kind);
    const WorkScope counted(work_.get());
    act();
    return work_.get()->count(kind) - before;
  }

  std::unique_ptr<Session> one_, other_;

 private:
  OwnWork work_;
};

}  // namespace atoll::table
