// Goal:   the definitions of several clones enter the catalog in one write. Each clone has the AUTO_INCREMENT
//         counter and the statistics of its source.
// Method: a catalog over a database of its own is checked, opened again and checked once more.
#include "catalog/catalog_fixture.h"

namespace atoll::catalog {
namespace {

TEST_F(CatalogTest, clones_are_stored_together_or_not_at_all) {
  const TableDef source = create("t", /*own_family=*/true), taken = create("taken");
  ASSERT_TRUE(catalog_->set_auto_increment(source.id, 77).ok());
  catalog_->set_statistics(source.id, "counts");
  TableDef first = source, second = source;
  ASSERT_TRUE(clone_family_of(source, &first) && clone_family_of(source, &second));
  first.name = "first";
  second.name = "taken";
  const Belongings belongings = catalog_->belongings(source);
  EXPECT_EQ(catalog_->add_clones({{first, {}, belongings}, {second, {}, belongings}}).code(),
            Code::kDuplicate);
  EXPECT_FALSE(catalog_->find("d", "first"));
  second.name = "second";
  ASSERT_TRUE(catalog_->add_clones({{first, {}, belongings}, {second, {}, belongings}}).ok());
  for (int round = 0; round < 2; round++) {
    for (const char *name : {"first", "second"}) {
      const TablePtr clone = catalog_->find("d", name);
      ASSERT_TRUE(clone);
      EXPECT_EQ(catalog_->auto_increment(clone->id), 77u);
      EXPECT_EQ(catalog_->statistics(clone->id), "counts");
      EXPECT_EQ(clone->frm, source.frm);
    }
    ASSERT_TRUE(catalog_->write_statistics().ok());
    reopen();
  }
  EXPECT_NE(catalog_->find("d", "first")->id, catalog_->find("d", "second")->id);
  check_whole();
}

// A mount shows the catalog of a state in the past, which may have an index whose build had not finished.
TEST_F(CatalogTest, a_past_catalog_tells_what_a_clone_of_its_table_gets) {
  TableDef table = create("t", /*own_family=*/true);
  ASSERT_TRUE(catalog_->set_auto_increment(table.id, 77).ok());
  IndexDef building{"b", table.next_ordinal++, false, true};
  table.indexes.push_back(building);
  ASSERT_TRUE(catalog_->update(table).ok());
  PastSchema then;
  ASSERT_TRUE(Catalog::read(database_->catalog_family(), "d", &then).ok());
  const Belongings &belongings = then.belongings.at(table.id);
  EXPECT_EQ(belongings.auto_increment, 77u);
  EXPECT_EQ(belongings.dropped_indexes, std::vector<uint16_t>{building.ordinal});
}

}  // namespace
}  // namespace atoll::catalog
