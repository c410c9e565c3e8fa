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
  EXPECT_EQ(catalog_->add_clones({{first, {}}, {second, {}}}).code(), Code::kDuplicate);
  EXPECT_FALSE(catalog_->find("d", "first"));
  second.name = "second";
  ASSERT_TRUE(catalog_->add_clones({{first, {}}, {second, {}}}).ok());
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

}  // namespace
}  // namespace atoll::catalog
