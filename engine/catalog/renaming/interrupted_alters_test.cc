// Tests what becomes of the tables of statements that a crash interrupted.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "catalog/catalog_fixture.h"

namespace atoll::catalog {
namespace {

TEST_F(CatalogTest, an_alter_cut_off_leaves_the_old_table_and_no_copy) {
  struct Case {
    const char *story;
    std::vector<std::string> copies;                           // tables that the ALTER has created
    std::vector<std::pair<std::string, std::string>> renames;  // renames before the crash: old name, new name
    bool old_survives;
  };
  const Case cases[] = {
      {"while copying", {"#sql-alter-1-2"}, {}, true},
      {"old one aside", {"#sql-alter-1-2"}, {{"t", "#sql-backup-1-2"}}, true},
      {"new one in place", {"#sql-alter-1-2"}, {{"t", "#sql-backup-1-2"}, {"#sql-alter-1-2", "t"}}, false},
      {"exchange: aside", {}, {{"t", "#sqlx-1-2"}}, true},
  };
  for (const Case &one : cases) {
    SCOPED_TRACE(one.story);
    const TableDef old = create("t");
    for (const std::string &copy : one.copies) create(copy);
    for (const auto &[from, to] : one.renames) ASSERT_TRUE(catalog_->rename("d", from, "d", to).ok());
    reopen();
    FinishedAlters done;
    ASSERT_TRUE(
        catalog_->finish_interrupted_alters([](const TableDef &) { return Fate::kPutBack; }, &done).ok());
    ASSERT_EQ(catalog_->list("d").size(), 1u);
    ASSERT_NE(catalog_->find("d", "t"), nullptr);
    EXPECT_EQ(catalog_->find("d", "t")->id == old.id, one.old_survives);
    EXPECT_TRUE(catalog_->find("d", "t")->former_name.empty());
    ASSERT_TRUE(catalog_->drop("d", "t").ok());
  }
}

TEST_F(CatalogTest, a_held_drop_keeps_the_table_until_it_is_decided) {
  for (const Fate fate : {Fate::kPutBack, Fate::kDrop}) {
    const TableDef old = create("t");
    const TableDef partition = create("p#P#p0");
    catalog_->holds_drops = true;
    ASSERT_TRUE(catalog_->drop("d", "t").ok());
    ASSERT_TRUE(catalog_->drop("d", "p#P#p0").ok());
    EXPECT_EQ(catalog_->drop("d", "t").code(), Code::kNotFound);
    EXPECT_EQ(catalog_->find("d", "t"), nullptr);
    reopen();
    EXPECT_NE(catalog_->find(old.id), nullptr);
    EXPECT_NE(catalog_->find(partition.id), nullptr);
    FinishedAlters done;
    ASSERT_TRUE(catalog_->finish_interrupted_alters([&](const TableDef &) { return fate; }, &done).ok());
    EXPECT_EQ(catalog_->find("d", "t") != nullptr, fate == Fate::kPutBack);
    EXPECT_EQ(catalog_->find("d", "p#P#p0") != nullptr, fate == Fate::kPutBack);
    EXPECT_EQ(catalog_->list("d").size(), fate == Fate::kPutBack ? 2u : 0u);
    for (const TablePtr &table : catalog_->list("d")) ASSERT_TRUE(catalog_->drop("d", table->name).ok());
  }
}

// The server drops the old table before it renames the new one, when its DDL log finishes an ALTER.
TEST_F(CatalogTest, a_held_drop_gives_way_to_the_new_table) {
  for (int round = 0; round < 2; ++round) {  // the second time, a table of an earlier drop is still there
    create("t");
    const TableDef copy = create("#sql-alter-1-2");
    catalog_->holds_drops = true;
    ASSERT_TRUE(catalog_->drop("d", "t").ok());
    ASSERT_TRUE(catalog_->rename("d", "#sql-alter-1-2", "d", "t").ok());
    EXPECT_EQ(catalog_->list("d").size(), 2u);
    if (round == 0) {
      ASSERT_TRUE(catalog_->drop("d", "t").ok());
      EXPECT_EQ(catalog_->list("d").size(), 1u);
      continue;
    }
    catalog_->holds_drops = false;
    FinishedAlters done;
    ASSERT_TRUE(
        catalog_->finish_interrupted_alters([](const TableDef &) { return Fate::kPutBack; }, &done).ok());
    ASSERT_EQ(catalog_->list("d").size(), 1u);
    EXPECT_EQ(catalog_->find("d", "t")->id, copy.id);
    EXPECT_TRUE(done.dropped.empty());
  }
}

}  // namespace
}  // namespace atoll::catalog
