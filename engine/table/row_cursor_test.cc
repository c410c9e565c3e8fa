// Goal:   every kind of read of a RowCursor returns the same rows as a sorted map, and locks these rows and
//         ranges and no others. A RowWriter refuses rows whose unique keys other rows have, and no others.
// Method: sessions write, commit, roll back and read at random, in READ COMMITTED and REPEATABLE READ, also
//         during reads of other sessions. Each read is compared row by row with a map of the entries that its
//         session must see: those of the snapshot, or for a locking read those committed now. The test also
//         checks the rows locked after a statement, that range locks lie within the ranges read, that a
//         locking read finds the same rows again at the end of its transaction, and how many entries the
//         cursor passed. The seed is printed; ATOLL_TEST_SEED repeats a run.
// engine/table/README.md lists the deliberate mistakes in the code that this test has found.
#include "table/row_cursor.h"

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "base/work.h"
#include "table/testing/row_cursor_reads.h"

namespace atoll::table {
namespace {

using codec::testing::Random;
using Found = RowCursor::Found;
using Reach = Seek::Reach;

constexpr size_t kSessions = 4;

class RowCursorModel {
 public:
  explicit RowCursorModel(uint64_t seed) : random_(seed) {
    EXPECT_TRUE(txn::Manager::open(&database_, &database_, &manager_).ok());
    layout_ = table_.layout(database_.shared_family());
    make_.set_layout(layout_);
    for (size_t i = 0; i < kSessions; i++)
      sessions_.push_back(
          {std::make_unique<Session>(table_, layout_, manager_.get(), i % 2 == 0), {}, {}, {}});
  }

  void act() {
    One &one = sessions_[random_.below(kSessions)];
    const uint64_t what = random_.below(20);
    if (what < 6) return write(&one);
    if (what < 8) return end(&one);
    if (what == 8) return write_and_take_back(&one);
    read(&one);
  }
  void finish() {
    for (One &one : sessions_) end(&one);
  }

 private:
  struct One {
    std::unique_ptr<Session> session;
    std::vector<Read> repeatable;  // completed locking reads; no own write came after them
    // The ranges that the cursor was asked to read with locks. It must lock no key outside of them.
    std::vector<Bounds> may_lock;
    std::set<uint32_t> locked;  // rows that were locked when the statement began, or that it has returned
  };

  // ---- writing ----

  void write(One *one) {
    Session &session = *one->session;
    const auto id = static_cast<uint32_t>(random_.below(kIds));
    const Rows rows = session.visible(committed_);
    std::optional<Row> now, row;
    if (rows.contains(id)) now = rows.at(id);
    if (!now || !random_.one_in(3)) row = make_.row(id);
    if (row == now) return;
    const bool is_double = row && now && random_.one_in(8);  // inserts a row whose primary key exists
    const std::set<uint32_t> before = session.locked_rows(kIds);
    const Status status = session.write(id, is_double ? std::nullopt : now, row);
    for (const uint32_t locked : session.locked_rows(kIds))
      if (!before.contains(locked)) one->locked.insert(locked);
    check_write(session, rows, row, is_double, status);
    if (status.ok()) one->repeatable.clear();
  }

  // Checks that a row is refused if and only if another row has one of its unique keys.
  void check_write(const Session &session, const Rows &rows, const std::optional<Row> &row, bool is_double,
                   const Status &status) {
    if (status.code() == Code::kLockTimeout) {
      EXPECT_TRUE(session.others_hold_anything()) << "nobody is in the way";
      return;
    }
    const Row *twin = row ? twin_of(*row, rows) : nullptr;
    ASSERT_EQ(status.code(), is_double || twin ? Code::kDuplicate : Code::kOk) << status.message();
    // If another transaction had locked the twin exclusively, the write would have to wait for its outcome.
    if (twin && !is_double) EXPECT_FALSE(is_held_by_others(session, twin->id, txn::LockMode::kExclusive));
    if (!status.ok()) EXPECT_EQ(session.writer.duplicate_index(), is_double ? kPrimary : kUnique);
  }

  void write_and_take_back(One *one) {
    const size_t savepoint = one->session->set_savepoint();
    write(one);
    write(one);
    one->session->rollback_to(savepoint);
  }

  void end(One *one) {
    for (const Read &read : one->repeatable) repeat(one->session.get(), read);
    check_ranges(*one);
    random_.one_in(4) ? one->session->rollback() : one->session->commit(&committed_);
    one->repeatable.clear();
    one->may_lock.clear();
  }

  // ---- locks ----

  bool is_locked_by_others(const Session &session, uint32_t id) const {
    const bool is_shared = session.open_table.mode().lock == RowLock::kShared;
    return is_held_by_others(session, id, is_shared ? txn::LockMode::kExclusive : txn::LockMode::kShared);
  }
  bool is_held_by_others(const Session &session, uint32_t id, txn::LockMode at_least) const {
    return std::any_of(sessions_.begin(), sessions_.end(), [&](const One &other) {
      return other.session.get() != &session && other.session->has_locked(id, at_least);
    });
  }

  // Checks that the session's range locks lie within the ranges that it has read with locks.
  void check_ranges(const One &one) const {
    const std::vector<Bounds> merged = table::merged(one.may_lock);
    for (const txn::LockInfo &lock : manager_->locks()->list()) {
      if (lock.kind != txn::LockKind::kRange || lock.transaction_id != one.session->transaction()->id())
        continue;
      EXPECT_TRUE(std::any_of(
          merged.begin(), merged.end(),
          [&](const Bounds &bounds) { return bounds.lower <= lock.key && lock.key_end <= bounds.upper; }))
          << "more is locked than was read: " << to_hex(lock.key) << " to " << to_hex(lock.key_end) << ", of "
          << table::shown(merged);
    }
  }

  // ---- reading ----

  void read(One *one) {
    Session &session = *one->session;
    choose_mode(&session);
    one->locked = session.locked_rows(kIds);
    if (!session.open_table.locking()) session.note_snapshot(committed_);
    for (size_t searches = 1 + random_.below(3); searches > 0; searches--) {
      const uint64_t what = random_.below(8);
      what == 0 ? read_point(one) : what == 1 ? read_ranges(one) : walk(one);
      disturb(one);
      if (random_.one_in(4)) write(one);
    }
    session.end_statement();
    if (!session.keeps_snapshot()) EXPECT_EQ(session.locked_rows(kIds), one->locked);
  }

  void choose_mode(Session *session) {
    ReadMode *mode = session->open_table.mutable_mode();
    mode->lock = random_.one_in(2)   ? RowLock::kNone
                 : random_.one_in(2) ? RowLock::kShared
                                     : RowLock::kExclusive;
    mode->skip_locked = mode->lock != RowLock::kNone && random_.one_in(6);
    mode->may_change = mode->lock == RowLock::kExclusive;
    session->condition.reset();
    if (random_.one_in(3)) session->condition = static_cast<uint32_t>(random_.below(kIds));
    session->cursor.filter().set_condition(session->condition.has_value());
    session->row_locks.allow_semi_consistent(mode->lock == RowLock::kExclusive && !mode->skip_locked &&
                                             random_.one_in(2));
  }

  // Returns the rows that the session must see.
  Rows visible(const Session &session) const {
    return session.visible(session.open_table.locking() ? committed_ : *session.snapshot());
  }
  Entries entries(const Session &session, size_t index) const {
    return table_.entries(*layout_, index, visible(session));
  }

  void read_point(One *one) {
    Session &session = *one->session;
    const auto id = static_cast<uint32_t>(random_.below(kIds));
    session.cursor.begin_index(kPrimary);
    Found found = Found::kNone;
    const std::string key = table_.key(*layout_, kPrimary, {.id = id}, 1);
    const Status status = session.cursor.get(key, true, session.record(), &found);
    one->may_lock.push_back({key, codec::key_after_prefix(key)});
    if (status.code() == Code::kLockTimeout) {
      EXPECT_TRUE(is_locked_by_others(session, id));
      return;
    }
    ASSERT_TRUE(status.ok()) << status.message();
    const Rows rows = visible(session);
    const bool is_skipped = session.open_table.mode().skip_locked && is_locked_by_others(session, id);
    ASSERT_EQ(found == Found::kRow, rows.contains(id) && !is_skipped);
    if (found != Found::kRow) return;
    EXPECT_EQ(table_.row(session.record()), rows.at(id));
    if (session.open_table.locking()) one->locked.insert(id);
  }

  void read_ranges(One *one) {
    Session &session = *one->session;
    RowCursor &cursor = session.cursor;
    if (session.open_table.locking()) return;
    session.condition.reset();
    cursor.filter().set_condition(false);
    const size_t index = 1 + random_.below(2);
    cursor.begin_index(index);
    Found found = Found::kNone;
    ASSERT_TRUE(cursor.begin_ranges(1 + random_.below(8), &found).ok());
    const Entries all = entries(session, index);
    std::vector<Row> expected, rows;
    cursor.begin_batch();
    for (size_t ranges = random_.below(5); ranges > 0; ranges--) {
      const Bounds bounds = make_.bounds(index);
      for (auto at = all.lower_bound(bounds.lower); at != all.end() && at->first < bounds.upper; ++at)
        expected.push_back(at->second);
      cursor.begin_range(bounds);
      while (!cursor.batch().ended) {
        ASSERT_TRUE(cursor.gather().ok());
        if (cursor.batch().entry_keys.size() >= cursor.batch().want) take_batch(&session, &rows);
      }
    }
    take_batch(&session, &rows);
    EXPECT_EQ(rows, expected);
  }

  void take_batch(Session *session, std::vector<Row> *rows) {
    RowCursor &cursor = session->cursor;
    Found found = Found::kNone;
    ASSERT_TRUE(cursor.look_up(&found).ok());
    while (found == Found::kRow) {
      ASSERT_TRUE(cursor.next_of_batch(session->record(), &found).ok());
      if (found == Found::kRow) rows->push_back(table_.row(session->record()));
    }
    cursor.begin_batch();
  }

  // ---- searches and steps ----

  // Compares the result of the first search or of a step with the model. Returns whether the read goes on.
  bool take(One *one, Read *read, bool forward, const Status &status, Found found) {
    Session &session = *one->session;
    const bool is_locking = session.open_table.locking();
    if (status.code() == Code::kLockTimeout) {
      EXPECT_TRUE(is_locking && session.others_hold_anything()) << "nobody is in the way";
      read->touch_all(forward);
      return false;
    }
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_NE(found, Found::kTooNew);
    if (!status.ok()) return false;
    const std::optional<Row> row =
        found == Found::kRow ? std::optional(shown(session, *read, session.record())) : std::nullopt;
    const bool is_right = compare(session, read, forward, row);
    if (row && is_locking) note_locks(one, *row);
    return is_right;
  }

  Row shown(Session &session, const Read &read, const uint8_t *record) const {
    return session.cursor.wanted().entries_suffice ? table_.entry_row(record, read.index)
                                                   : table_.row(record);
  }

  void note_locks(One *one, const Row &row) {
    Session &session = *one->session;
    if (session.row_locks.returned_unlocked()) {
      EXPECT_TRUE(is_locked_by_others(session, row.id));
      if (random_.one_in(2)) session.cursor.give_back_row();
      return;
    }
    EXPECT_FALSE(is_locked_by_others(session, row.id));
    EXPECT_TRUE(session.has_locked(row.id, txn::LockMode::kShared));
    if (session.passes(row) || session.keeps_snapshot())
      one->locked.insert(row.id);
    else
      session.cursor.give_back_row();
  }

  // Checks that `row` is the next row of the model. Rows of the model that do not pass the condition may be
  // left out if the search may refuse rows.
  bool compare(const Session &session, Read *read, bool forward, const std::optional<Row> &row) {
    const Entries all = entries(session, read->index);
    const auto next = [&]() -> const std::pair<const std::string, Row> * {
      const Bounds &bounds = read->bounds;
      auto at = !forward                        ? all.lower_bound(std::min(read->position, bounds.upper))
                : read->position < bounds.lower ? all.lower_bound(bounds.lower)
                : read->is_at_start             ? all.lower_bound(read->position)
                                                : all.upper_bound(read->position);
      if (!forward && at == all.begin()) return nullptr;
      if (!forward) --at;
      if (at == all.end() || at->first < bounds.lower || at->first >= bounds.upper) return nullptr;
      return &*at;
    };
    const bool may_refuse =
        read->is_scan || read->given || !read->seek.prefix.empty() || read->seek.reach == Reach::kWholeIndex;
    for (const auto *entry = next(); entry != nullptr; entry = next()) {
      read->position = entry->first;
      read->is_at_start = false;
      const bool is_this = row && row->id == entry->second.id;
      if (!is_this && session.has_even_condition && !Session::is_even(entry->second)) continue;
      if (!is_this && may_refuse && !session.passes(entry->second)) continue;
      if (!is_this && session.open_table.mode().skip_locked && is_locked_by_others(session, entry->second.id))
        continue;
      EXPECT_TRUE(row.has_value()) << "a row is not returned: " << ::testing::PrintToString(entry->second);
      if (!row) return false;
      const Row expected = session.cursor.wanted().entries_suffice
                               ? table_.entry_row(table_.record(entry->second).data(), read->index)
                               : entry->second;
      EXPECT_EQ(*row, expected);
      if (session.has_even_condition) EXPECT_TRUE(Session::is_even(*row));
      read->touched.lower = std::min(read->touched.lower, entry->first);
      read->touched.upper = std::max(read->touched.upper, next_key(entry->first));
      read->rows.push_back(*row);
      return *row == expected;
    }
    EXPECT_FALSE(row.has_value()) << "there is no such row: " << ::testing::PrintToString(*row) << " after "
                                  << ::testing::PrintToString(read->rows);
    stop_at_end(read, forward);
    return !row.has_value();
  }

  void stop_at_end(Read *read, bool forward) {
    const IndexLayout &index = layout_->index(read->index);
    read->touch_all(forward);
    if (forward)
      read->position = read->prefix.empty() ? index.end : codec::key_after_prefix(read->prefix);
    else
      read->position = read->prefix.empty() ? index.start : read->prefix;
  }

  void begin(Session *session, Read *read) {
    RowCursor &cursor = session->cursor;
    const IndexLayout &index = layout_->index(read->index);
    read->bounds = read->given.value_or(Bounds{index.start, index.end});
    read->prefix = read->seek.prefix;
    if (!read->prefix.empty()) {
      read->bounds.lower = std::max(read->bounds.lower, read->prefix);
      read->bounds.upper = std::min(read->bounds.upper, codec::key_after_prefix(read->prefix));
    }
    if (read->is_scan) read->seek.key = index.start;
    read->position = read->seek.key;
    read->touched = {read->position, read->position};
    cursor.wanted().all = true;
    cursor.wanted().entries_suffice = false;
    if (read->is_scan) return cursor.begin_table();
    cursor.begin_index(read->index);
    if (read->given) cursor.bounds().give(*read->given);
  }

  Status first(Session *session, const Read &read, Found *found) {
    if (!read.is_scan) return session->cursor.search(read.seek, session->record(), found);
    EXPECT_TRUE(session->cursor.begin_reading());
    return session->cursor.scan(session->record(), found);
  }

  void walk(One *one) {
    Session &session = *one->session;
    Read read = make_.read();
    begin(&session, &read);
    SCOPED_TRACE(describe(session, read));
    const bool is_locking = session.open_table.locking();
    session.has_even_condition = read.index == kSecondary && random_.one_in(4);
    session.cursor.wanted().entries_suffice =
        !is_locking && read.index != kPrimary && !session.condition && random_.one_in(3);
    const uint64_t steps_before = work_.get()->count(WorkKind::kCursorSteps);
    Found found = Found::kNone;
    const Status status = first(&session, read, &found);
    check_steps(session, read, steps_before);
    if (names_one_row(read)) EXPECT_FALSE(session.row_locks.returned_unlocked());
    bool goes_on = take(one, &read, read.is_scan || read.seek.forward, status, found);
    bool turned = false, ended = found == Found::kNone;
    for (size_t left = random_.one_in(2) ? 100 : random_.below(6); goes_on && !ended && left > 0; left--) {
      // Under READ COMMITTED a locking read can miss commits between its steps, so the test makes none.
      if (!is_locking || session.keeps_snapshot())
        if (disturb(one)) read.touch_all(true), read.touch_all(false);
      goes_on = step(one, &read, &turned, &found);
      ended = found == Found::kNone;
    }
    one->may_lock.push_back(read.touched);
    if (read.seek.parts == 1)
      one->may_lock.push_back({read.seek.key, codec::key_after_prefix(read.seek.key)});
    const bool is_repeatable = is_locking && session.keeps_snapshot() && goes_on && ended && !turned &&
                               !session.open_table.mode().skip_locked;
    if (is_repeatable) remember(one, std::move(read));
    session.has_even_condition = false;
  }

  // Whether the search finds at most one row, by a unique key. The server never asks again for such a row.
  bool names_one_row(const Read &read) const {
    return read.index == kUnique && read.seek.parts == 1 && !layout_->entry_has_null(kUnique, read.seek.key);
  }

  // Checks the cost: a consistent search passes at most the entries within its bounds, or only the first row.
  void check_steps(const Session &session, const Read &read, uint64_t before) {
    if (session.open_table.locking()) return;
    const uint64_t steps = work_.get()->count(WorkKind::kCursorSteps) - before;
    const Entries all = entries(session, read.index);
    uint64_t inside = 0;
    for (const auto &[key, row] : all) inside += key >= read.bounds.lower && key < read.bounds.upper;
    const bool wants_first = !read.is_scan && read.seek.reach != Reach::kWholeIndex && !read.given &&
                             read.seek.prefix.empty() && !session.has_even_condition;
    EXPECT_LE(steps, wants_first ? read.seek.rows_wanted + 1 : inside + 2);
  }

  bool step(One *one, Read *read, bool *turned, Found *found) {
    Session &session = *one->session;
    RowCursor &cursor = session.cursor;
    if (read->is_scan) {
      const Status status = cursor.scan(session.record(), found);
      return take(one, read, true, status, *found);
    }
    const bool turns = random_.one_in(8);
    *turned = *turned || turns;
    const bool forward = read->seek.forward != turns;
    if (!session.open_table.locking() && session.keeps_snapshot() && random_.one_in(10))
      begin_again(&session, read);
    const bool is_same = forward && cursor.is_exact() && random_.one_in(2);
    const bool leaves = !is_same && !session.open_table.locking() && (forward || !read->seek.prefix_stays);
    if (leaves && !read->prefix.empty()) {
      read->prefix.clear();
      read->bounds = {layout_->index(read->index).start, layout_->index(read->index).end};
    }
    const Status status = is_same   ? cursor.next_same(session.record(), found)
                          : forward ? cursor.next(session.record(), found)
                                    : cursor.prev(session.record(), found);
    return take(one, read, forward, status, *found);
  }

  // Lets the next step be a statement of its own, as with HANDLER.
  void begin_again(Session *session, Read *read) {
    session->cursor.begin_again();
    read->prefix.clear();
    read->bounds = {layout_->index(read->index).start, layout_->index(read->index).end};
  }

  // At random, lets another session write or end its transaction. Returns whether it did.
  bool disturb(const One *reader) {
    One &other = sessions_[random_.below(kSessions)];
    if (&other == reader || !random_.one_in(3)) return false;
    random_.one_in(3) ? end(&other) : write(&other);
    return true;
  }

  // ---- reads that must find the same again ----

  void remember(One *one, Read read) {
    read.has_even_condition = one->session->has_even_condition;
    read.condition = one->session->condition;
    read.lock = one->session->open_table.mode().lock;
    one->repeatable.push_back(std::move(read));
  }
  void repeat(Session *session, Read read) {
    const std::vector<Row> before = std::move(read.rows);
    session->open_table.mutable_mode()->lock = read.lock;
    session->condition = read.condition;
    session->cursor.filter().set_condition(read.condition.has_value());
    session->has_even_condition = read.has_even_condition;
    begin(session, &read);
    SCOPED_TRACE("again: " + describe(*session, read) +
                 ", found before: " + ::testing::PrintToString(before));
    std::vector<Row> rows;
    Found found = Found::kNone;
    Status status = first(session, read, &found);
    while (status.ok() && found == Found::kRow) {
      rows.push_back(table_.row(session->record()));
      status = read.is_scan        ? session->cursor.scan(session->record(), &found)
               : read.seek.forward ? session->cursor.next(session->record(), &found)
                                   : session->cursor.prev(session->record(), &found);
    }
    // Rows that an entry condition refuses are not locked, so other sessions may be removing them. A unique
    // key may have been locked by a transaction that wanted to insert it.
    const bool may_wait = read.has_even_condition || read.seek.parts == 1;
    if (status.code() != Code::kLockTimeout || !may_wait) {
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(rows, before);
    }
    session->has_even_condition = false;
    session->end_statement();
  }

  TestTable table_;
  txn::TestDirectory directory_;
  txn::TestDatabase database_{directory_.path()};
  std::unique_ptr<txn::Manager> manager_;
  std::shared_ptr<const Layout> layout_;
  Random random_;
  RandomReads make_{table_, &random_};
  Rows committed_;
  std::vector<One> sessions_;
  OwnWork work_;
  WorkScope counted_{work_.get()};
};

TEST(RowCursor, returns_and_locks_what_a_sorted_map_says) {
  const uint64_t seed = codec::testing::seed_of_this_run();
  for (uint64_t run = 0; run < 25 && !::testing::Test::HasFailure(); run++) {
    SCOPED_TRACE("run " + std::to_string(run));
    RowCursorModel model(seed * 1000 + run);
    for (int i = 0; i < 250 && !::testing::Test::HasFailure(); i++) model.act();
    if (!::testing::Test::HasFailure()) model.finish();
  }
}

}  // namespace
}  // namespace atoll::table
