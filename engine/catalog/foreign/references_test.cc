// Tests how the catalog keeps constraints: children are found by the names of their parents, and follow when
// a table or a column is renamed, also over a crash between any two steps.
#include <gtest/gtest.h>

#include "catalog/catalog_fixture.h"

namespace atoll::catalog {
namespace {

class ReferencesTest : public CatalogTest {
 protected:
  static ForeignKeyDef foreign_key(const std::string &name, const std::string &column,
                                   const std::string &parent) {
    return {name, {column}, "d", parent, {"id"}, ReferenceAction::kCascade, ReferenceAction::kRestrict};
  }

  TableDef create_child(const std::string &name, const std::vector<ForeignKeyDef> &foreign_keys) {
    TableDef table = definition(name);
    table.foreign_keys = foreign_keys;
    const Status status = catalog_->create(&table, false);
    EXPECT_TRUE(status.ok()) << status.message();
    return table;
  }

  std::set<std::string> children(const std::string &table) const {
    std::set<std::string> names;
    for (const TablePtr &child : catalog_->children_of("d", table)) names.insert(child->name);
    return names;
  }

  // Renames a table as RENAME TABLE does.
  Status rename(const std::string &from, const std::string &to) {
    return catalog_->rename("d", from, "d", to, {"d", from, from + "_ibfk_", to + "_ibfk_"});
  }

  using Names = std::set<std::string>;
};

TEST_F(ReferencesTest, children_are_found_while_their_constraints_exist) {
  create_child("c", {foreign_key("c_ibfk_1", "a", "p"), foreign_key("c_ibfk_2", "b", "p"),
                     foreign_key("s", "a", "c")});
  create_child("e", {foreign_key("e_ibfk_1", "a", "p")});
  EXPECT_EQ(children("p"), (Names{"c", "e"})) << "the parent need not exist";
  EXPECT_EQ(children("c"), Names{"c"});
  EXPECT_EQ(children("e"), Names{});
  reopen();
  EXPECT_EQ(children("p"), (Names{"c", "e"}));
  ASSERT_TRUE(catalog_->drop("d", "e").ok());
  EXPECT_EQ(children("p"), Names{"c"});
  const TableDef child = *catalog_->find("d", "c");
  ASSERT_TRUE(catalog_->update({child}, {}, {{"C_IBFK_1"}, {}, {}}).ok());
  EXPECT_EQ(children("p"), Names{"c"}) << "one constraint is left";
  ASSERT_TRUE(catalog_->update({child}, {}, {{"c_ibfk_2"}, {}, {}}).ok());
  EXPECT_EQ(children("p"), Names{});
}

TEST_F(ReferencesTest, a_child_that_an_alter_has_set_aside_is_known_by_the_name_that_it_had) {
  const auto set_aside = [this](const std::string &table) {
    std::set<std::string> names;
    for (const TablePtr &child : catalog_->children_of("d", table, true)) names.insert(child->former_name);
    return names;
  };
  create_child("c", {foreign_key("k", "a", "p")});
  create_child("#sql-alter-1-2", {foreign_key("k", "a", "p")});
  EXPECT_EQ(set_aside("p"), Names{}) << "the new table is not in place yet";
  ASSERT_TRUE(catalog_->rename("d", "c", "d", "#sql-backup-1-2").ok());
  EXPECT_EQ(children("p"), Names{});
  EXPECT_EQ(set_aside("p"), Names{"c"});
  ASSERT_TRUE(catalog_->rename("d", "#sql-alter-1-2", "d", "c").ok());
  EXPECT_EQ(children("p"), Names{"c"});
  EXPECT_EQ(set_aside("p"), Names{"c"});
  ASSERT_TRUE(catalog_->drop("d", "#sql-backup-1-2").ok());
  EXPECT_EQ(set_aside("p"), Names{});
  EXPECT_EQ(children("p"), Names{"c"});
}

TEST_F(ReferencesTest, an_update_with_an_older_definition_keeps_the_constraints) {
  const TableDef former = create_child("c", {});
  ASSERT_TRUE(catalog_->update({former}, {}, {{}, {foreign_key("k", "a", "p")}, {}}).ok());
  TableDef altered = former;
  altered.frm = "another";
  ASSERT_TRUE(catalog_->update(altered).ok());
  ASSERT_TRUE(catalog_->update_unsynced(altered).ok());
  reopen();
  EXPECT_EQ(catalog_->find("d", "c")->foreign_keys, std::vector{foreign_key("k", "a", "p")});
  EXPECT_EQ(children("p"), Names{"c"});
}

TEST_F(ReferencesTest, constraints_follow_their_tables_to_new_names) {
  create("p");
  create_child("c", {foreign_key("c_ibfk_1", "a", "p"), foreign_key("mine", "a", "c")});
  ASSERT_TRUE(rename("p", "q").ok());
  ASSERT_TRUE(rename("c", "e").ok());
  EXPECT_EQ(children("p"), Names{});
  EXPECT_EQ(children("c"), Names{});
  EXPECT_EQ(children("q"), Names{"e"});
  EXPECT_EQ(children("e"), Names{"e"});
  reopen();
  EXPECT_EQ(catalog_->find("d", "e")->foreign_keys,
            (std::vector{foreign_key("e_ibfk_1", "a", "q"), foreign_key("mine", "a", "e")}));
}

TEST_F(ReferencesTest, two_tables_that_swap_their_names_swap_their_children) {
  create("p");
  create("q");
  create_child("of_p", {foreign_key("x", "a", "p")});
  create_child("of_q", {foreign_key("y", "a", "q")});
  ASSERT_TRUE(rename("p", "t").ok());
  ASSERT_TRUE(rename("q", "p").ok());
  ASSERT_TRUE(rename("t", "q").ok());
  EXPECT_EQ(children("q"), Names{"of_p"});
  EXPECT_EQ(children("p"), Names{"of_q"});
}

// An ALTER with a copy renames the old table away and the new one to its place. Neither change concerns the
// children, and the constraints of tables under internal names are not seen.
TEST_F(ReferencesTest, constraints_of_tables_with_internal_names_are_not_seen) {
  create("p");
  create_child("c", {foreign_key("k", "a", "p")});
  create_child("#sql-alter-1", {foreign_key("k", "a", "p"), foreign_key("n", "b", "p")});
  EXPECT_EQ(children("p"), Names{"c"});
  ASSERT_TRUE(catalog_->rename("d", "c", "d", "#sql-backup-1").ok());
  EXPECT_EQ(children("p"), Names{});
  ASSERT_TRUE(catalog_->rename("d", "#sql-alter-1", "d", "c").ok());
  EXPECT_EQ(children("p"), Names{"c"});
  EXPECT_EQ(catalog_->find("d", "c")->foreign_keys.size(), 2u);
  ASSERT_TRUE(catalog_->drop("d", "#sql-backup-1").ok());
  EXPECT_EQ(children("p"), Names{"c"});
  // The parent is replaced likewise.
  ASSERT_TRUE(catalog_->rename("d", "p", "d", "#sql-backup-2").ok());
  create("p");
  EXPECT_EQ(children("p"), Names{"c"});
}

TEST_F(ReferencesTest, names_of_constraints_are_unique_in_a_database) {
  create_child("c", {foreign_key("k", "a", "p")});
  TableDef other = definition("e");
  other.foreign_keys = {foreign_key("K", "a", "p")};
  EXPECT_EQ(catalog_->create(&other, false).code(), Code::kInvalid);
  EXPECT_EQ(catalog_->with_foreign_key("d", "K")->name, "c");
  EXPECT_EQ(catalog_->with_foreign_key("elsewhere", "K"), nullptr);
  const TableDef fresh = create("f");
  EXPECT_EQ(catalog_->update({fresh}, {}, {{}, {foreign_key("K", "a", "p")}, {}}).code(), Code::kInvalid);
  create_child("f_old", {foreign_key("f_old_ibfk_1", "a", "p")});
  create_child("g", {foreign_key("f_new_ibfk_1", "a", "p")});
  EXPECT_EQ(rename("f_old", "f_new").code(), Code::kInvalid);
  other.database = "elsewhere";
  EXPECT_TRUE(catalog_->create(&other, false).ok());
}

TEST_F(ReferencesTest, renamed_columns_are_renamed_on_both_sides) {
  create_child("c", {foreign_key("k", "a", "p")});
  create_child("s", {foreign_key("ks", "Id", "s")});
  const TableDef parent = create("p");
  ASSERT_TRUE(catalog_->update({parent}, {}, {{}, {}, {{"ID", "number"}}}).ok());
  ASSERT_TRUE(catalog_->update({*catalog_->find("d", "c")}, {}, {{}, {}, {{"A", "b"}}}).ok());
  ASSERT_TRUE(catalog_->update({*catalog_->find("d", "s")}, {}, {{}, {}, {{"id", "n"}}}).ok());
  reopen();
  const ForeignKeyDef key = catalog_->find("d", "c")->foreign_keys.front();
  EXPECT_EQ(key.columns, std::vector<std::string>{"b"});
  EXPECT_EQ(key.parent_columns, std::vector<std::string>{"number"});
  const ForeignKeyDef own = catalog_->find("d", "s")->foreign_keys.front();
  EXPECT_EQ(own.columns, std::vector<std::string>{"n"});
  EXPECT_EQ(own.parent_columns, std::vector<std::string>{"n"});
}

// A crash before any step of a renaming leaves parent and child both as they were, or both changed.
TEST_F(ReferencesTest, a_crash_in_a_renaming_leaves_no_child_of_a_name_without_table) {
  create("p");
  create_child("c", {foreign_key("k", "a", "p")});
  std::string from = "p", to = "q";
  bool crashed = true;
  for (int cut = 0; crashed; ++cut) {
    ASSERT_LT(cut, 50);
    database_->crash_before_step(cut);
    try {
      ASSERT_TRUE(rename(from, to).ok());
      crashed = false;
    } catch (const Crash &) {
    }
    database_->crash_before_step(-1);
    reopen();
    EXPECT_EQ(catalog_->find("d", from) != nullptr, crashed);
    EXPECT_EQ(children(from).size(), crashed ? 1u : 0u);
    EXPECT_EQ(children(to).size(), crashed ? 0u : 1u);
  }
}

}  // namespace
}  // namespace atoll::catalog
