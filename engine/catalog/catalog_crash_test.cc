// Tests that after a crash between any two steps of a change the reopened catalog holds the old or the new
// definition, and that no family or key range is left over.
#include <gtest/gtest.h>

#include <functional>

#include "catalog/catalog_fixture.h"

namespace atoll::catalog {
namespace {

struct CrashCase {
  const char *name;
  bool own_family;
  std::function<Status(Catalog *, const TableDef &)> change;
};

using CatalogCreateCrashTest = CatalogTest;

class CatalogCrashTest : public CatalogTest, public testing::WithParamInterface<CrashCase> {};

// Each round crashes one step later than the round before, until the operation completes without a crash.
// After every crash the reopened catalog holds the old or the new definition, and no family or key range is
// left over.
TEST_P(CatalogCrashTest, leaves_the_old_or_the_new_definition_and_no_litter) {
  const CrashCase &tested = GetParam();
  int cut = 0;
  for (bool crashed = true; crashed; ++cut) {
    ASSERT_LT(cut, 50);
    crashed = false;
    const std::string name = "t" + std::to_string(cut);
    const TableDef before = create(name, tested.own_family);
    fill(before);
    database_->crash_before_step(cut);
    try {
      ASSERT_TRUE(tested.change(catalog_.get(), before).ok());
    } catch (const Crash &) {
      crashed = true;
    }
    database_->crash_before_step(-1);
    const TablePtr in_memory = catalog_->find(before.id);
    reopen();
    check_whole();  // reopening has already deleted the ranges that the crash left
    const TablePtr after = catalog_->find(before.id);
    if (after && *after == before) {
      EXPECT_TRUE(crashed);
      EXPECT_FALSE(keys(database_->find_family(before.family_id)).empty()) << "the table lost its rows";
    } else if (!crashed) {
      EXPECT_EQ(after == nullptr, in_memory == nullptr);
    }
  }
  EXPECT_GT(cut, 1);
}

TEST_F(CatalogCreateCrashTest, a_crash_in_create_leaves_the_table_or_nothing) {
  for (const bool own : {false, true}) {
    bool crashed = true;
    for (int cut = 0; crashed; ++cut) {
      ASSERT_LT(cut, 50);
      TableDef table = definition((own ? "o" : "s") + std::to_string(cut));
      database_->crash_before_step(cut);
      try {
        ASSERT_TRUE(catalog_->create(&table, own).ok());
        crashed = false;
      } catch (const Crash &) {
      }
      database_->crash_before_step(-1);
      reopen();
      check_whole();
      EXPECT_EQ(catalog_->find("d", table.name) != nullptr, !crashed);
    }
  }
}

TEST_F(CatalogCreateCrashTest, a_crash_in_the_drop_of_a_partitioned_table_leaves_all_or_none_of_it) {
  bool crashed = true;
  int cut = 0;
  for (; crashed; ++cut) {
    ASSERT_LT(cut, 50);
    crashed = false;
    const std::string name = "t" + std::to_string(cut);
    const std::vector<std::string> all = {name, name + "#P#p0", name + "#P#p1#SP#s0", name + "#P#p2"};
    for (const std::string &one : all) fill(create(one, one.ends_with("p2")));
    const TableDef other = create("other" + std::to_string(cut));
    database_->crash_before_step(cut);
    try {
      ASSERT_TRUE(catalog_->drop_partitioned("d", name).ok());
    } catch (const Crash &) {
      crashed = true;
    }
    database_->crash_before_step(-1);
    reopen();
    check_whole();
    const bool there = catalog_->find("d", name) != nullptr;
    for (const std::string &one : all) EXPECT_EQ(catalog_->find("d", one) != nullptr, there) << one;
    EXPECT_NE(catalog_->find("d", other.name), nullptr);
    EXPECT_TRUE(crashed || !there);
    if (!there) {
      EXPECT_EQ(catalog_->drop_partitioned("d", name).code(), Code::kNotFound);
    }
  }
  EXPECT_GT(cut, 1);
}

Status drop(Catalog *catalog, const TableDef &table) {
  ATOLL_RETURN_IF_ERROR(catalog->drop(table.database, table.name));
  return catalog->reclaim();
}

Status truncate(Catalog *catalog, const TableDef &table) {
  TablePtr out;
  ATOLL_RETURN_IF_ERROR(catalog->truncate(table.database, table.name, &out));
  return catalog->reclaim();
}

Status move(Catalog *catalog, const TableDef &table) {
  TablePtr out;
  return catalog->move_to_own_family(table.id, &out);
}

Status drop_index(Catalog *catalog, const TableDef &table) {
  TableDef without = table;
  without.indexes.pop_back();
  ATOLL_RETURN_IF_ERROR(catalog->update(without));
  return catalog->reclaim();
}

INSTANTIATE_TEST_SUITE_P(
    Operations, CatalogCrashTest,
    testing::Values(CrashCase{"drop_shared", false, drop}, CrashCase{"drop_own", true, drop},
                    CrashCase{"truncate_shared", false, truncate}, CrashCase{"truncate_own", true, truncate},
                    CrashCase{"move", false, move}, CrashCase{"drop_index_shared", false, drop_index},
                    CrashCase{"drop_index_own", true, drop_index}),
    [](const auto &info) { return std::string(info.param.name); });

}  // namespace
}  // namespace atoll::catalog
