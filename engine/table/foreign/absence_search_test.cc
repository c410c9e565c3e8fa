// Goal:   many searches for children that do not exist take few cursors and searches, and each finds a child
//         that the transaction itself has written, or that another one has committed before its range was
//         locked. A range that was shown to be empty stays empty.
// Method: two sessions on a table in a real database. The one searches, both write; counts of the work. Then
//         threads with random steps, against a count of the children of each parent. The seed is printed.
#include "table/foreign/absence_search.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <random>
#include <thread>

#include "table/foreign/reference_search.h"
#include "table/testing/two_sessions.h"

namespace atoll::table {
namespace {

class AbsenceSearchTest : public TwoSessionsTest<> {
 protected:
  static constexpr uint32_t kParents = 200;

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(TwoSessionsTest::SetUp());
    commit_rows({{1, 10, 100}, {2, 1000, 200}});
    newest_ = std::make_unique<NewestRows>(one_.get());
    search_ = search_for(newest_.get());
  }
  std::unique_ptr<ReferenceSearch> search_for(Statement *statement) {
    return std::make_unique<ReferenceSearch>(
        statement, manager_->locks(),
        ReferenceSearch::Target{layout_, table_.record_length(), kSecondary, 1, -1, true});
  }
  std::string start(uint32_t parent) const { return table_.key(*layout_, kSecondary, {0, parent}, 1); }
  Status find(uint32_t parent, bool *found) { return search_->find(start(parent), found); }
  bool finds(uint32_t parent) {
    bool found = false;
    const Status status = find(parent, &found);
    EXPECT_TRUE(status.ok()) << status.message();
    return found;
  }
  // Searches for the children of these parents, which have none, and writes a row after each search. Returns
  // the work of the searches.
  uint64_t work_of_finding_none(WorkKind kind, uint32_t first, uint32_t last) {
    uint64_t work = 0;
    for (uint32_t parent = first; parent <= last; parent++) {
      work += work_of(kind, [&] { EXPECT_FALSE(finds(parent)) << parent; });
      EXPECT_TRUE(insert(one_.get(), {10'000 + parent, 10'000 + parent, 10'000 + parent}).ok());
    }
    return work;
  }
  void find_none(uint32_t first, uint32_t last) {
    (void)work_of_finding_none(WorkKind::kCursorSeeks, first, last);
  }
  bool has_committed_child(uint32_t parent) {
    const std::string from = start(parent);
    const std::unique_ptr<rocksdb::Iterator> it = layout_->family()->iterator(rocksdb::ReadOptions());
    it->Seek(from);
    EXPECT_TRUE(it->status().ok());
    return it->Valid() && it->key().starts_with(from);
  }

  std::unique_ptr<NewestRows> newest_;
  std::unique_ptr<ReferenceSearch> search_;
};

TEST_F(AbsenceSearchTest, parents_without_children_share_a_cursor_and_few_searches) {
  EXPECT_EQ(work_of_finding_none(WorkKind::kCursorsOpened, 20, 220), 1u) << "own writes do not matter";
  search_->end_statement();
  EXPECT_LE(work_of_finding_none(WorkKind::kCursorSeeks, 300, 500), 10u);
  search_->end_statement();
  EXPECT_EQ(work_of_finding_none(WorkKind::kPointGets, 600, 800), 0u);
}

TEST_F(AbsenceSearchTest, children_on_both_sides_of_each_parent_take_a_search_for_each) {
  std::vector<Row> rows;
  for (uint32_t i = 0; i < kParents; i++) rows.push_back({100 + i, 2000 + 2 * i, 1000 + i});
  commit_rows(rows);
  uint64_t seeks = 0;
  const uint64_t cursors = work_of(WorkKind::kCursorsOpened, [&] {
    seeks = work_of(WorkKind::kCursorSeeks, [&] {
      for (uint32_t i = 0; i < kParents; i++) EXPECT_FALSE(finds(2001 + 2 * i)) << i;
    });
  });
  EXPECT_EQ(cursors, 1u);
  EXPECT_EQ(seeks, kParents);
}

TEST_F(AbsenceSearchTest, what_another_commits_into_a_remembered_range_is_found) {
  find_none(20, 60);
  ASSERT_ATOLL_OK(insert(other_.get(), {3, 70, 300}));
  commit(other_.get());
  EXPECT_FALSE(finds(69));
  EXPECT_TRUE(finds(70));
  EXPECT_FALSE(finds(71));
}

TEST_F(AbsenceSearchTest, what_another_has_not_committed_is_waited_for) {
  find_none(20, 60);
  ASSERT_ATOLL_OK(insert(other_.get(), {3, 70, 300}));
  bool found = false;
  EXPECT_EQ(find(70, &found).code(), Code::kLockTimeout);
}

// Acts when it is asked for its transaction for the time number `at`.
class ActingStatement final : public Statement {
 public:
  ActingStatement(Statement *inner, uint32_t at, std::function<void()> act)
      : inner_(inner), calls_left_(at), act_(std::move(act)) {}
  txn::Transaction *transaction() override {
    if (calls_left_-- == 0) act_();
    return inner_.transaction();
  }
  bool keeps_snapshot() const override { return inner_.keeps_snapshot(); }
  uint64_t lock_wait_ms() const override { return inner_.lock_wait_ms(); }
  bool refuses_changed_rows() const override { return inner_.refuses_changed_rows(); }
  bool is_killed() const override { return inner_.is_killed(); }

 private:
  NewestRows inner_;
  uint32_t calls_left_;
  const std::function<void()> act_;
};

// Another transaction commits a child between two steps of the search, whichever they are.
TEST_F(AbsenceSearchTest, what_another_commits_during_the_search_is_found) {
  uint32_t found_in = 0;
  for (uint32_t at = 0; at < 10; at++) {
    const uint32_t parent = 100 + at;
    ASSERT_ATOLL_OK(insert(other_.get(), {50 + at, parent, 500 + at}));
    ActingStatement acting(one_.get(), at, [&] { commit(other_.get()); });
    search_ = search_for(&acting);
    bool found = false;
    const Status status = find(parent, &found);
    EXPECT_TRUE(found || status.code() == Code::kLockTimeout) << at;
    found_in += found;
    search_.reset();
    other_->rollback();
    one_->rollback();
  }
  EXPECT_GE(found_in, 4u) << "the test tests nothing";
}

TEST_F(AbsenceSearchTest, own_children_are_found_and_removed_ones_are_not) {
  find_none(20, 60);
  ASSERT_ATOLL_OK(insert(one_.get(), {3, 70, 300}));
  EXPECT_TRUE(finds(70));
  search_->end_statement();
  ASSERT_ATOLL_OK(remove(one_.get(), {3, 70, 300}));
  EXPECT_FALSE(finds(70));
  ASSERT_ATOLL_OK(remove(one_.get(), {2, 1000, 200}));
  EXPECT_FALSE(finds(1000)) << "committed, and removed by itself";
}

TEST_F(AbsenceSearchTest, nobody_inserts_a_child_of_a_parent_that_was_searched) {
  find_none(20, 60);
  for (const uint32_t parent : {20u, 27u, 28u, 29u, 60u}) {
    EXPECT_EQ(insert(other_.get(), {3, parent, 300}).code(), Code::kLockTimeout) << parent;
    other_->rollback();
  }
  // 61 is in the remembered range, but nobody has searched for its children.
  ASSERT_ATOLL_OK(insert(other_.get(), {3, 61, 300}));
}

TEST_F(AbsenceSearchTest, many_deleted_entries_change_nothing_but_the_cost) {
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 1000; i++) rows.push_back({100 + i, 2000 + i / 100, 1000 + i});
  commit_rows(rows);
  for (const Row &row : rows) ASSERT_ATOLL_OK(remove(other_.get(), row));
  ASSERT_ATOLL_OK(insert(other_.get(), {3, 2005, 300}));
  commit(other_.get());
  for (uint32_t parent = 2000; parent < 2010; parent++) EXPECT_EQ(finds(parent), parent == 2005) << parent;
}

TEST_F(AbsenceSearchTest, a_look_that_is_often_in_vain_is_given_up) {
  for (int i = 0; i < 100; i++) EXPECT_FALSE(search_->shows_none(start(10)));
  EXPECT_FALSE(search_->shows_none(start(20))) << "given up";
  search_->end_statement();
  EXPECT_TRUE(search_->shows_none(start(20)));
  EXPECT_EQ(insert(other_.get(), {3, 20, 300}).code(), Code::kLockTimeout);
}

// Writers insert and remove children. Readers look for parents without children, and expect that none of them
// has a child as long as their transaction goes on.
class AbsenceAmongWritersTest : public AbsenceSearchTest {
 protected:
  static constexpr uint32_t kFew = 12, kRounds = 100, kLooks = 4;

  void write_at_random(uint32_t thread, uint32_t seed) {
    std::mt19937 random(seed);
    std::map<uint32_t, Row> rows;
    for (uint32_t round = 0; is_reading_ && round < 1'000'000; round++) {
      const std::unique_ptr<Session> writer = session(true);
      const uint32_t id = thread * 1000 + random() % 8;
      const auto row = rows.find(id);
      const Row added{id, 20 + random() % kFew, id};
      const Status status =
          row == rows.end() ? insert(writer.get(), added) : remove(writer.get(), row->second);
      if (!status.ok() || random() % 4 == 0) {
        writer->rollback();
        continue;
      }
      row == rows.end() ? (void)(rows[id] = added) : (void)rows.erase(row);
      commit(writer.get());
    }
  }
  void read_at_random(uint32_t seed) {
    std::mt19937 random(seed);
    for (uint32_t round = 0; round < kRounds; round++) {
      const std::unique_ptr<Session> reader = session(true);
      NewestRows newest(reader.get());
      const std::unique_ptr<ReferenceSearch> search = search_for(&newest);
      std::vector<uint32_t> childless;
      for (uint32_t look = 0; look < kLooks; look++) {
        const uint32_t parent = 20 + random() % kFew;
        bool found = false;
        if (!search->find(start(parent), &found).ok()) break;
        if (!found) childless.push_back(parent);
        std::this_thread::yield();
      }
      for (const uint32_t parent : childless) EXPECT_FALSE(has_committed_child(parent)) << parent;
      shown_ += childless.size();
      search->end_statement();
      reader->rollback();
    }
  }

  std::atomic<bool> is_reading_{true};
  std::atomic<uint64_t> shown_{0};
};

TEST_F(AbsenceAmongWritersTest, no_parent_that_was_shown_to_be_childless_has_a_child) {
  const auto seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::vector<std::thread> writers, readers;
  for (uint32_t i = 0; i < 2; i++) writers.emplace_back([=, this] { write_at_random(10 + i, seed + i); });
  for (uint32_t i = 0; i < 2; i++) readers.emplace_back([=, this] { read_at_random(seed + 10 + i); });
  for (std::thread &reader : readers) reader.join();
  is_reading_ = false;
  for (std::thread &writer : writers) writer.join();
  EXPECT_GT(shown_, 0u) << "the test tests nothing";
}

}  // namespace
}  // namespace atoll::table
