// Tests only: ALTERs of the table of row_cursor_fixture.h, sessions that write to it meanwhile, and a check
// of the altered table.
//
// Before the ALTER the table has PRIMARY (id) and KEY (a), and for Built::kMove also UNIQUE (u). In all other
// cases only the ALTER makes `u` unique, so writers can write the duplicates that the ALTER must find.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "table/online/test_alter.h"
#include "table/testing/stored_table.h"

namespace atoll::table {

// Returns the part of a test's name that says what is built.
inline std::string name_of_built(const ::testing::TestParamInfo<Built> &info) {
  const char *const names[] = {"indexes", "moved_table", "primary_key", "numbers"};
  return names[static_cast<size_t>(info.param)];
}

template <typename Test = ::testing::Test>
class OnlineFixture : public StoredTableTest<TestTable, Test> {
 protected:
  using Base = StoredTableTest<TestTable, Test>;
  using Base::database_;
  using Base::layout_;
  using Base::manager_;
  using Base::stored;
  using Base::table_;

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Base::SetUp());
    ASSERT_ATOLL_OK(database_->create_family({}, &other_family_));
  }
  void TearDown() override {
    writers_.clear();
    alter_.reset();
  }

  // Makes the layout that the table has before the ALTER, and removes the writers of a former table. Writes
  // no rows.
  void open_table(Built built) {
    built_ = built;
    lsm::Family *family = database_->shared_family();
    const std::vector<TestTable::Key> keys = {{"PRIMARY", 1, TestTable::kId, true},
                                              {"a", 2, TestTable::kA, false}};
    if (built == Built::kMove)
      layout_ = table_.layout(family);
    else
      layout_ = default_of_added_ ? table_.layout_without_u(family, keys) : table_.layout(family, keys);
    writers_.clear();
  }
  Session *add_writer() {
    writers_.push_back(std::make_unique<Session>(table_, layout_, manager_.get(), false));
    if (alter_) writers_.back()->writer.set_log(alter_->online());
    return writers_.back().get();
  }
  // Requires: no writer has uncommitted changes.
  TestAlter &begin_alter() {
    alter_ = std::make_unique<TestAlter>(database_.operator->(), built_, layout_, altered_layout(),
                                         built_indexes(), table_.record_length());
    for (const auto &writer : writers_) writer->writer.set_log(alter_->online());
    return *alter_;
  }
  // Requires: the writers have ended their transactions.
  void end_alter() {
    for (const auto &writer : writers_) writer->writer.set_log(nullptr);
    alter_.reset();
  }

  // Whether the altered table has a unique key on `u` that the table did not have before.
  bool makes_unique() const { return built_ != Built::kMove; }
  // The number of the unique index on `u` in the altered table.
  size_t unique_index() const {
    return built_ == Built::kPrimaryKey ? kPrimary : built_ == Built::kNumbers ? kSecondary : kUnique;
  }
  int64_t logged() { return database_.count(database_->temp_family()); }

  // Checks that the altered table has exactly `rows`, and each index that was built exactly their entries.
  void expect_altered(const Rows &rows) {
    const Layout &altered = *alter_->altered;
    std::map<size_t, std::set<std::string>> entries;
    Rows found;
    rocksdb::ReadOptions options;
    const std::string &end = altered.primary_index().end;
    const std::unique_ptr<rocksdb::Iterator> it = altered.family()->iterator(options);
    for (it->Seek(altered.primary_index().start); it->Valid() && it->key().ToStringView() < end; it->Next()) {
      codec::testing::Record record = table_.record({});
      ASSERT_ATOLL_OK(altered.row().unpack(it->value().ToStringView(), nullptr, record.data()));
      const Row row = table_.row(record.data());
      EXPECT_TRUE(found.emplace(row.id, row).second) << "twice: " << ::testing::PrintToString(row);
      add_entries(altered, record.data(), it->key().ToString(), &entries);
    }
    EXPECT_EQ(found, rows);
    for (const size_t index : alter_->indexes)
      EXPECT_EQ(stored(altered, index), entries[index]) << altered.index(index).name;
  }

  Built built_ = Built::kIndexes;
  std::optional<uint32_t> default_of_added_;  // set: the ALTER adds the column `u` with this default
  lsm::Family *other_family_ = nullptr;
  std::unique_ptr<TestAlter> alter_;
  std::vector<std::unique_ptr<Session>> writers_;

 private:
  std::shared_ptr<const Layout> altered_layout() const {
    lsm::Family *family = layout_->family();
    switch (built_) {
      case Built::kIndexes:
        return default_of_added_ ? table_.layout_with_added_u(family, *default_of_added_)
                                 : table_.layout(family);
      case Built::kMove:
        return table_.layout(other_family_);
      case Built::kPrimaryKey:
        return table_.layout(family, {{"PRIMARY", 4, TestTable::kU, true},
                                      {"a", 5, TestTable::kA, false},
                                      {"id", 6, TestTable::kId, true}});
      case Built::kNumbers:
        return table_.layout(family, {{"a", 5, TestTable::kA, false}, {"u", 6, TestTable::kU, true}}, 4);
    }
    __builtin_unreachable();
  }
  std::vector<size_t> built_indexes() const {
    switch (built_) {
      case Built::kIndexes:
        return {kUnique};
      case Built::kMove:
      case Built::kPrimaryKey:
        return {0, 1, 2};
      case Built::kNumbers:
        return {0, 1};
    }
    __builtin_unreachable();
  }
  void add_entries(const Layout &altered, const uint8_t *record, const std::string &row_key,
                   std::map<size_t, std::set<std::string>> *entries) const {
    for (const size_t index : alter_->indexes) {
      std::string key, value;
      bool has_null = false;
      if (altered.is_primary(index))
        altered.primary_key(record, 0, &key);
      else
        altered.secondary_entry(index, record, row_key, &key, &value, &has_null);
      (*entries)[index].insert(key);
    }
  }
};

}  // namespace atoll::table
