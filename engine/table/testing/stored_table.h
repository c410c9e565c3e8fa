// Tests only: a table in a real database. `Table` is TestTable, or a class with those functions of TestTable
// that the test uses.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "lsm/test_database.h"
#include "table/testing/row_cursor_fixture.h"

namespace atoll::table {

template <typename Table, typename Test = ::testing::Test>
class StoredTableTest : public Test {
 protected:
  void SetUp() override {
    ASSERT_ATOLL_OK(database_.open());
    lsm::Database *database = database_.operator->();
    ASSERT_ATOLL_OK(txn::Manager::open(database, database, &manager_));
    layout_ = table_.layout(database->shared_family());
  }

  // Writes a row without a transaction and without index entries. put() writes the entries, too.
  void put_row(const Row &row) {
    const codec::testing::Record record = table_.record(row);
    std::string packed;
    layout_->row().pack(record.data(), &packed);
    ASSERT_ATOLL_OK(database_.put(layout_->family(), table_.key(*layout_, kPrimary, row, 1), packed));
  }
  void put(const Row &row) {
    put_row(row);
    const codec::testing::Record record = table_.record(row);
    const std::string primary = table_.key(*layout_, kPrimary, row, 1);
    std::string key, value;
    for (const size_t index : {kSecondary, kUnique}) {
      bool has_null = false;
      layout_->secondary_entry(index, record.data(), primary, &key, &value, &has_null);
      ASSERT_ATOLL_OK(database_.put(layout_->family(), key, value));
    }
  }

  // *moved: the layout of the table in a new family of its own. Copies no rows.
  Status move_to_own_family(std::shared_ptr<const Layout> *moved) {
    lsm::Family *family = nullptr;
    ATOLL_RETURN_IF_ERROR(database_->create_family({}, &family));
    auto def = std::make_shared<catalog::TableDef>(layout_->def());
    def->own_family = true;
    def->prefix = 0;
    *moved = layout_->moved(std::move(def), family);
    return Status::Ok();
  }

  // Return the committed keys: all keys of the layout's family, or those of one index.
  std::set<std::string> stored(const Layout &layout) { return stored_between(layout.family(), "", ""); }
  std::set<std::string> stored(const Layout &layout, size_t index) {
    return stored_between(layout.family(), layout.index(index).start, layout.index(index).end);
  }

  lsm::TestDatabase database_{true};
  Table table_;
  std::unique_ptr<txn::Manager> manager_;
  std::shared_ptr<const Layout> layout_;

 private:
  // `end`: empty for no end.
  static std::set<std::string> stored_between(lsm::Family *family, const std::string &begin,
                                              const std::string &end) {
    std::set<std::string> keys;
    const std::unique_ptr<rocksdb::Iterator> it = family->iterator(rocksdb::ReadOptions());
    for (it->Seek(begin); it->Valid() && (end.empty() || it->key().ToStringView() < end); it->Next())
      keys.insert(it->key().ToString());
    EXPECT_TRUE(it->status().ok());
    return keys;
  }
};

}  // namespace atoll::table
