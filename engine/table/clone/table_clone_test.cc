// Goal:   clones have the rows of their sources, whether a source is in the shared family or in its own. All
//         clones of one call are made, or none (SHARE-1).
// Method: a catalog over a real database; the rows are plain keys under the tables' prefixes.
#include "table/clone/table_clone.h"

#include <gtest/gtest.h>

#include "catalog/record.h"
#include "lsm/test_database.h"

namespace atoll::table {
namespace {

using catalog::TableDef;
using catalog::TablePtr;

class TableCloneTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_ATOLL_OK(open()); }
  Status open() {
    catalog_.reset();
    ATOLL_RETURN_IF_ERROR(database_.reopen());
    return catalog::Catalog::open(database_.operator->(), database_.operator->(), &catalog_);
  }

  // Creates a table with one entry in each of its indexes. The value of the entries is "of <name>".
  TablePtr create(const std::string &name, bool own_family) {
    TableDef table;
    table.database = "d";
    table.name = name;
    table.indexes = {{"PRIMARY", 1, true, false}, {"a", 2, false, false}};
    table.next_ordinal = 3;
    table.versions = {{1, {}}};
    EXPECT_TRUE(catalog_->create(&table, own_family).ok());
    for (const catalog::IndexDef &index : table.indexes)
      EXPECT_TRUE(put(table, index.ordinal, "of " + name).ok());
    return catalog_->find(table.id);
  }
  Status put(const TableDef &table, uint16_t ordinal, const std::string &value) {
    return database_.put(database_->find_family(table.family_id), key(table, ordinal), value);
  }
  std::string get(const TableDef &table, uint16_t ordinal) {
    return database_.get(database_->find_family(table.family_id), key(table, ordinal));
  }
  static std::string key(const TableDef &table, uint16_t ordinal) {
    return index_range(table, ordinal).begin + "key";
  }
  Status clone(std::vector<CloneOrder> orders, bool is_killed = false) {
    for (CloneOrder &order : orders) order.belongings = catalog_->belongings(*order.source);
    const ClonePlace place{database_.operator->(), database_.operator->(), catalog_.get()};
    return clone_tables(place, orders, [is_killed] { return is_killed; });
  }

  lsm::TestDatabase database_{true};
  std::unique_ptr<catalog::Catalog> catalog_;
};

TEST_F(TableCloneTest, has_the_rows_of_tables_of_both_kinds) {
  const TablePtr small = create("small", false), large = create("large", true);
  create("neighbour", false);
  ASSERT_ATOLL_OK(clone({{small, "e", "small2"}, {large, "e", "large2"}}));
  for (int round = 0; round < 2; round++) {
    for (const auto &[name, value] : {std::pair{"small2", "of small"}, std::pair{"large2", "of large"}}) {
      const TablePtr made = catalog_->find("e", name);
      ASSERT_TRUE(made);
      EXPECT_EQ(made->own_family, std::string_view(name) == "large2");
      for (const uint16_t ordinal : {1, 2}) EXPECT_EQ(get(*made, ordinal), value);
      if (made->own_family) EXPECT_EQ(database_.count(database_->find_family(made->family_id)), 2);
    }
    ASSERT_ATOLL_OK(open());
  }
}

TEST_F(TableCloneTest, entries_of_a_dropped_index_go_from_the_clone_too) {
  std::vector<CloneOrder> orders;
  for (const bool own_family : {false, true}) {
    const std::string name = own_family ? "large" : "small";
    TableDef table = *create(name, own_family);
    table.indexes.pop_back();
    ASSERT_ATOLL_OK(catalog_->update(table));
    orders.push_back({catalog_->find(table.id), "e", name});
  }
  ASSERT_ATOLL_OK(clone(orders));
  for (int round = 0; round < 2; round++) {
    for (const char *name : {"small", "large"}) {
      const TablePtr made = catalog_->find("e", name);
      ASSERT_TRUE(made);
      EXPECT_EQ(get(*made, 1), std::string("of ") + name);
      EXPECT_EQ(get(*made, 2), round == 0 ? std::string("of ") + name : "");
    }
    // Even after a restart the catalog knows the entries of the dropped index, and reclaim() deletes them.
    ASSERT_ATOLL_OK(open());
    ASSERT_ATOLL_OK(catalog_->reclaim());
  }
}

TEST_F(TableCloneTest, clones_of_a_database_refer_to_each_other_and_a_clone_of_a_table_to_nothing) {
  const auto foreign_key = [](const char *name, const char *database) {
    return catalog::ForeignKeyDef{name, {"a"}, database, "parent", {"id"}};
  };
  const TablePtr made = create("child", false), parent = create("parent", false);
  ASSERT_ATOLL_OK(
      catalog_->update({*made}, {}, {{}, {foreign_key("far", "x"), foreign_key("near", "d")}, {}}));
  const TablePtr child = catalog_->find("d", "child");
  ASSERT_ATOLL_OK(clone({{child, "e", "child", {}, true}, {parent, "e", "parent", {}, true}}));
  EXPECT_EQ(catalog_->find("e", "child")->foreign_keys,
            (std::vector{foreign_key("far", "x"), foreign_key("near", "e")}));
  ASSERT_EQ(catalog_->children_of("e", "parent").size(), 1u);
  ASSERT_ATOLL_OK(clone({{child, "d", "single"}}));
  EXPECT_TRUE(catalog_->find("d", "single")->foreign_keys.empty());
  EXPECT_EQ(clone({{child, "e", "again", {}, true}}).code(), Code::kInvalid) << "the names are taken";
  EXPECT_EQ(catalog_->find("e", "again"), nullptr);
}

TEST_F(TableCloneTest, goes_its_own_way) {
  const TablePtr table = create("t", true);
  ASSERT_ATOLL_OK(clone({{table, "d", "t2"}}));
  const TablePtr made = catalog_->find("d", "t2");
  ASSERT_ATOLL_OK(put(*table, 1, "changed"));
  ASSERT_ATOLL_OK(put(*made, 2, "other"));
  EXPECT_EQ(get(*made, 1), "of t");
  EXPECT_EQ(get(*table, 2), "of t");
  ASSERT_ATOLL_OK(catalog_->drop("d", "t"));
  ASSERT_ATOLL_OK(open());
  EXPECT_EQ(get(*catalog_->find("d", "t2"), 1), "of t");
}

TEST_F(TableCloneTest, all_are_made_or_none) {
  const TablePtr first = create("first", true), second = create("second", false);
  EXPECT_EQ(clone({{first, "d", "third"}, {second, "d", "first"}}).code(), Code::kDuplicate);
  EXPECT_EQ(clone({{first, "d", "third"}, {second, "d", "fourth"}}, /*is_killed=*/true).code(),
            Code::kInterrupted);
  database_.store()->fail = [](const std::string &call) {
    return call.starts_with("share") ? Code::kNoSpace : Code::kOk;
  };
  EXPECT_EQ(clone({{second, "d", "fourth"}, {first, "d", "third"}}).code(), Code::kNoSpace);
  database_.store()->fail = nullptr;
  EXPECT_FALSE(catalog_->find("d", "third") || catalog_->find("d", "fourth"));
  EXPECT_EQ(get(*first, 1), "of first");
  // The shared family has the 2 entries of `second`, and 4 that two of the failed calls have copied.
  // reclaim() deletes those 4.
  EXPECT_EQ(database_.count(database_->shared_family()), 6);
  ASSERT_ATOLL_OK(catalog_->reclaim());
  EXPECT_EQ(database_.count(database_->shared_family()), 2);
}

TEST_F(TableCloneTest, rows_at_reserved_places_go_after_a_crash) {
  const TablePtr table = create("t", false);
  std::vector<catalog::Place> places;
  ASSERT_ATOLL_OK(catalog_->reserve(2, &places));
  TableDef nobody = *table;
  nobody.prefix = places[1].prefix;
  ASSERT_ATOLL_OK(put(nobody, 1, "lost"));
  ASSERT_ATOLL_OK(catalog_->reclaim());
  EXPECT_EQ(get(nobody, 1), "lost") << "while the server runs, they stay";
  ASSERT_ATOLL_OK(open());
  ASSERT_ATOLL_OK(catalog_->reclaim());
  EXPECT_EQ(get(nobody, 1), "");
  EXPECT_EQ(get(*table, 1), "of t");
}

TEST_F(TableCloneTest, families_of_a_crash_before_the_catalog_knows_are_dropped_at_open) {
  const TablePtr table = create("t", true);
  lsm::Family *lost = nullptr;
  ASSERT_ATOLL_OK(
      database_->clone_family(database_->find_family(table->family_id), nullptr, table->compression, &lost));
  const uint32_t id = lost->id();
  ASSERT_ATOLL_OK(open());
  EXPECT_TRUE(database_.wait_for([&] { return database_->find_family(id) == nullptr; }));
  EXPECT_EQ(get(*catalog_->find("d", "t"), 1), "of t");
}

}  // namespace
}  // namespace atoll::table
