// Goal:   the records about the masking of a clone survive a restart, and a state of the past has its own.
// Method: a catalog over a plain RocksDB; what Catalog::read() finds is what a mount of that state would
// find.
#include <gtest/gtest.h>

#include "catalog/catalog_fixture.h"

namespace atoll::catalog {
namespace {

TEST_F(CatalogTest, a_masking_that_has_begun_is_on_record_until_it_has_ended) {
  create("t");
  const auto record = [this] {
    reopen();
    return catalog_->masking();
  };
  EXPECT_EQ(record().done_in + "|" + record().begun_in, "|");
  ASSERT_TRUE(catalog_->begin_masking("parent").ok());
  EXPECT_EQ(record().done_in + "|" + record().begun_in, "|parent");
  ASSERT_TRUE(catalog_->end_masking("parent").ok());
  EXPECT_EQ(record().done_in + "|" + record().begun_in, "parent|");
  ASSERT_TRUE(catalog_->begin_masking("clone").ok());
  EXPECT_EQ(record().done_in + "|" + record().begun_in, "parent|clone");
  PastSchema then;
  ASSERT_TRUE(Catalog::read(database_->catalog_family(), "d", &then).ok());
  EXPECT_EQ(then.masking.done_in + "|" + then.masking.begun_in, "parent|clone");
}

}  // namespace
}  // namespace atoll::catalog
