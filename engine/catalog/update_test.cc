// Goal:   update() stores AUTO_INCREMENT counters in the same write as the definitions, also smaller ones
// than
//         before. What update_unsynced() writes is found as soon as the log is synced.
// Method: a catalog over a database of its own is checked, opened again and checked once more.
#include "catalog/catalog_fixture.h"

namespace atoll::catalog {
namespace {

TEST_F(CatalogTest, counters_change_together_with_definitions) {
  TableDef raised = create("raised"), lowered = create("lowered"), other = create("other");
  for (const TableDef *table : {&raised, &lowered, &other})
    ASSERT_TRUE(catalog_->set_auto_increment(table->id, 40).ok());
  raised.frm = lowered.frm = "another";
  TableDef unknown = definition("unknown");
  unknown.id = 1000;
  EXPECT_EQ(catalog_->update({raised, unknown}, {{raised.id, 50}}).code(), Code::kNotFound);
  EXPECT_EQ(catalog_->auto_increment(raised.id), 40u);
  ASSERT_TRUE(catalog_->update({raised, lowered}, {{raised.id, 50}, {lowered.id, 3}}).ok());
  for (int round = 0; round < 2; round++) {
    EXPECT_EQ(catalog_->auto_increment(raised.id), 50u);
    EXPECT_EQ(catalog_->auto_increment(lowered.id), 3u);
    EXPECT_EQ(catalog_->auto_increment(other.id), 40u);
    EXPECT_EQ(catalog_->find(lowered.id)->frm, "another");
    reopen();
  }
}

TEST_F(CatalogTest, an_unsynced_update_is_there_after_a_clean_end) {
  TableDef table = create("t");
  table.frm = "another";
  ASSERT_TRUE(catalog_->update_unsynced(table).ok());
  EXPECT_EQ(catalog_->find(table.id)->frm, "another");
  reopen();
  EXPECT_EQ(catalog_->find(table.id)->frm, "another");
}

}  // namespace
}  // namespace atoll::catalog
