// Goal:   while other sessions write, an ALTER builds a table or indexes that have exactly the rows which
//         these sessions leave, and their entries. Or the ALTER names one of two rows with the same unique
//         value.
// Method: writers insert, change and remove rows at random in several transactions, roll back and take
//         savepoints. They do so before the copy, between any two of its rows, between and within replays,
//         and afterwards. A map holds all committed rows. The seed is printed; ATOLL_TEST_SEED repeats a run.
// engine/table/README.md lists the deliberate mistakes in the code that this test has found.
#include <gtest/gtest.h>

#include <string>

#include "table/online/online_fixture.h"

namespace atoll::table {
namespace {

constexpr uint64_t kRounds = 60;
constexpr size_t kWriters = 3;
constexpr uint32_t kIds = 12;

class OnlineModelTest : public OnlineFixture<::testing::TestWithParam<Built>> {
 protected:
  void run(uint64_t seed) {
    SCOPED_TRACE("ATOLL_TEST_SEED=" + std::to_string(seed));
    random_ = codec::testing::Random(seed);
    values_ = random_.one_in(2) ? 2 * kIds : 1000;
    committed_.clear();
    for (lsm::Family *family : {database_->shared_family(), other_family_}) clear(family);
    open_table(GetParam());
    for (size_t i = 0; i < kWriters; i++) add_writer();
    act(random_.below(60));
    end_all();
    alter();
    end_all();
    end_alter();
    EXPECT_EQ(logged(), 0);
  }

 private:
  // Does not use the engine's delete_range(), because that later deletes whole files in the range, and these
  // may be files of the next round.
  static void clear(lsm::Family *family) {
    const std::string begin(1, '\0'), end(1, '\xFF');
    ASSERT_TRUE(
        lsm::Raw::of(family)->DeleteRange(rocksdb::WriteOptions(), family->handle(), begin, end).ok());
  }

  void alter() {
    TestAlter &alter = begin_alter();
    alter.view.makes_entries = random_.one_in(2);
    alter.view.on_compute = [this] { act(random_.below(3)); };
    const Rows copied = committed_;
    act(random_.below(20));
    const Status filled = alter.fill();
    ASSERT_NO_FATAL_FAILURE(check(filled, copied));
    if (!filled.ok()) return;
    do {
      act(random_.below(20));
      if (random_.one_in(2)) ASSERT_ATOLL_OK(alter.replay());
    } while (!random_.one_in(6));
    end_all();
    alter.view.on_compute = [] {};
    const Status finished = alter.finish();
    ASSERT_NO_FATAL_FAILURE(check(finished, committed_));
    if (finished.ok()) expect_altered(committed_);
  }

  // Checks that the ALTER has found a duplicate if and only if two of `rows` have the same unique value.
  void check(const Status &status, const Rows &rows) {
    bool has_twins = false;
    for (const auto &[id, row] : rows) has_twins |= makes_unique() && twin_of(row, rows) != nullptr;
    ASSERT_EQ(status.code(), has_twins ? Code::kDuplicate : Code::kOk) << status.message();
    if (!has_twins) return;
    EXPECT_EQ(alter_->duplicate_index(), unique_index());
    const Row shown = table_.row(alter_->view.record());
    EXPECT_NE(twin_of(shown, rows), nullptr) << ::testing::PrintToString(shown);
  }

  // ---- writers ----

  void act(uint64_t steps) {
    for (; steps > 0; steps--) {
      Session &writer = *writers_[random_.below(kWriters)];
      const uint64_t what = random_.below(10);
      if (what < 6)
        write(&writer);
      else if (what == 6)
        write_and_take_back(&writer);
      else
        end(&writer);
    }
  }
  // Writes one row at random. The write can fail, because another writer has locked the row or because of a
  // duplicate. Then nothing changes.
  void write(Session *writer) {
    const auto id = static_cast<uint32_t>(random_.below(kIds));
    const Rows rows = writer->visible(committed_);
    std::optional<Row> now, row;
    if (rows.contains(id)) now = rows.at(id);
    if (!now || !random_.one_in(3)) row = random_row(id);
    if (now && row && random_.one_in(4)) row->id = static_cast<uint32_t>(random_.below(kIds));
    if (row == now) return;
    const Code code = writer->write(id, now, row).code();
    ASSERT_TRUE(code == Code::kOk || code == Code::kLockTimeout || code == Code::kDuplicate);
  }
  void write_and_take_back(Session *writer) {
    const size_t savepoint = writer->set_savepoint();
    write(writer);
    write(writer);
    writer->rollback_to(savepoint);
  }
  void end(Session *writer) { random_.one_in(4) ? writer->rollback() : writer->commit(&committed_); }
  void end_all() {
    for (const auto &writer : writers_) end(writer.get());
  }
  Row random_row(uint32_t id) {
    Row row{id, static_cast<uint32_t>(random_.below(4)), static_cast<uint32_t>(random_.below(values_))};
    if (random_.one_in(8)) row.a.reset();
    // A primary key is never NULL.
    if (built_ != Built::kPrimaryKey && random_.one_in(8)) row.u.reset();
    return row;
  }

  codec::testing::Random random_{0};
  uint64_t values_ = 0;  // how many values `u` can have: few, so that duplicates come and go, or many
  Rows committed_;
};

TEST_P(OnlineModelTest, what_is_built_is_what_the_writers_leave) {
  const uint64_t seed = codec::testing::seed_of_this_run();
  for (uint64_t round = 0; round < kRounds && !HasFailure(); round++) run(seed + round);
}

INSTANTIATE_TEST_SUITE_P(of, OnlineModelTest,
                         ::testing::Values(Built::kIndexes, Built::kMove, Built::kPrimaryKey,
                                           Built::kNumbers),
                         name_of_built);

}  // namespace
}  // namespace atoll::table
