// Goal:   a renamed table is paired with itself, and a rebuilt table with the former table of its name.
// Method: definitions made by hand.
#include "visitor/table_pairs.h"

#include <gtest/gtest.h>

#include <string>

namespace atoll::visitor {
namespace {

catalog::TablePtr table(uint32_t id, const char *name, uint64_t created_us = 1, size_t columns = 1) {
  auto def = std::make_shared<catalog::TableDef>();
  def->id = id;
  def->database = "shop";
  def->name = name;
  def->created_us = created_us;
  def->column_ids.resize(columns);
  return def;
}

Change only_change(const catalog::TablePtr &before, const catalog::TablePtr &after) {
  const std::vector<TablePair> pairs = pair_tables({before}, {after});
  EXPECT_EQ(pairs.size(), 1u);
  return change_of(pairs.front());
}

TEST(TablePairs, AnUnchangedTableIsPairedWithItself) {
  EXPECT_EQ(only_change(table(1, "orders"), table(1, "orders")), Change::kNone);
}

TEST(TablePairs, ARenamedTableIsFoundByItsId) {
  EXPECT_EQ(only_change(table(1, "orders"), table(1, "orders_2025")), Change::kRenamed);
}

TEST(TablePairs, ATableThatAnAlterCopiedIsFoundByItsName) {
  EXPECT_EQ(only_change(table(1, "orders"), table(2, "orders", 2)), Change::kRebuilt);
}

TEST(TablePairs, ANewColumnIsAnAlteration) {
  EXPECT_EQ(only_change(table(1, "orders"), table(1, "orders", 1, 2)), Change::kAltered);
}

// A .frm file with the given version, and one more byte for the rest of the definition.
catalog::TablePtr table_of_frm(char version, char rest) {
  auto def = std::make_shared<catalog::TableDef>(*table(1, "orders"));
  def->frm = std::string(64, 'h') + std::string("\0\x10", 2) + std::string(16, version) + rest;
  return def;
}

TEST(TablePairs, ANewVersionOfTheSameDefinitionIsNoAlteration) {
  EXPECT_EQ(only_change(table_of_frm('1', 'a'), table_of_frm('2', 'a')), Change::kNone);
  EXPECT_EQ(only_change(table_of_frm('1', 'a'), table_of_frm('2', 'b')), Change::kAltered);
  EXPECT_EQ(only_change(table_of_frm('1', 'a'), table(1, "orders")), Change::kAltered);
}

// A partition has no .frm of its own in the catalog. A description that only one state has is no alteration:
// the server has noted it when it opened the table.
TEST(TablePairs, ARenamedColumnIsAnAlterationAndANewDescriptionIsNone) {
  const auto described = [](const char *column) {
    auto def = std::make_shared<catalog::TableDef>(*table(1, "t#P#p0"));
    def->description.columns.resize(1);
    def->description.columns[0].name = column;
    return def;
  };
  EXPECT_EQ(only_change(described("a"), described("b")), Change::kAltered);
  EXPECT_EQ(only_change(described("a"), described("a")), Change::kNone);
  EXPECT_EQ(only_change(table(1, "t#P#p0"), described("a")), Change::kNone);
}

TEST(TablePairs, AnIdThatWasGivenOutAgainIsAnotherTable) {
  const std::vector<TablePair> pairs = pair_tables({table(1, "lost", 5)}, {table(1, "made_instead", 9)});
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(change_of(pairs[0]), Change::kAdded);
  EXPECT_EQ(change_of(pairs[1]), Change::kDropped);
  EXPECT_EQ(pairs[1].before->name, "lost");
}

TEST(TablePairs, ARenameAndANewTableUnderTheFormerNameAreBothSeen) {
  const std::vector<TablePair> pairs =
      pair_tables({table(1, "orders")}, {table(2, "orders", 2), table(1, "orders_old")});
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(change_of(pairs[0]), Change::kAdded);
  EXPECT_EQ(change_of(pairs[1]), Change::kRenamed);
}

}  // namespace
}  // namespace atoll::visitor
