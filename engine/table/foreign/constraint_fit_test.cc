// Tests which index serves a constraint, and which reason is told when none does.
#include "table/foreign/constraint_fit.h"

#include <gtest/gtest.h>

namespace atoll::table {
namespace {

using catalog::ColumnDescription;
using catalog::SqlType;
using catalog::TableDescription;

ColumnDescription integer(const std::string &name, SqlType type = SqlType::kInt) {
  ColumnDescription column;
  column.name = name;
  column.type = type;
  column.record_bytes = type == SqlType::kBigInt ? 8 : 4;
  return column;
}

// A table with the columns id, b and c. `keys`: positions of the columns of each key.
TableDescription table(const std::vector<std::vector<uint16_t>> &keys) {
  TableDescription table;
  table.columns = {integer("id"), integer("b"), integer("c")};
  for (const std::vector<uint16_t> &columns : keys) {
    table.keys.push_back({"k" + std::to_string(table.keys.size()), false, false, {}});
    for (const uint16_t column : columns) table.keys.back().parts.push_back({column, 0, false});
  }
  return table;
}

TEST(ConstraintFit, an_index_that_begins_with_the_columns_in_their_order_serves) {
  const TableDescription parent = table({{0}, {1, 0, 2}});
  EXPECT_EQ(needed_index(parent, {"id"}), 0);
  EXPECT_EQ(needed_index(parent, {"b"}), 1);
  EXPECT_EQ(needed_index(parent, {"B", "ID"}), 1) << "names of columns have no case";
  EXPECT_EQ(needed_index(parent, {"id", "b"}), -1);
  EXPECT_EQ(needed_index(parent, {"c"}), -1);
  EXPECT_EQ(needed_index(parent, {"none"}), -1);
}

TEST(ConstraintFit, the_primary_key_serves_before_other_indexes) {
  TableDescription parent = table({{1, 0}, {1}});
  EXPECT_EQ(needed_index(parent, {"b"}), 0);
  parent.primary = 1;
  EXPECT_EQ(needed_index(parent, {"b"}), 1);
}

TEST(ConstraintFit, columns_of_other_types_do_not_fit) {
  TableDescription child = table({{0}});
  child.columns[1] = integer("b", SqlType::kBigInt);
  catalog::ForeignKeyDef key;
  key.columns = {"id", "b"};
  key.parent_columns = {"b", "c"};
  const FoundIndex found = find_parent_index(child, key, table({{1, 2}}));
  EXPECT_EQ(found.index, -1);
  EXPECT_EQ(found.misfit, Misfit::kTypes);
  EXPECT_EQ(found.column, 1u);
  key.columns = {"id", "c"};
  EXPECT_EQ(find_parent_index(child, key, table({{1, 2}})).index, 0);
}

TEST(ConstraintFit, the_last_index_with_a_reason_tells_it) {
  TableDescription child = table({{0}});
  child.columns[0] = integer("id", SqlType::kBigInt);
  catalog::ForeignKeyDef key;
  key.columns = key.parent_columns = {"id"};
  TableDescription parent = table({{0}, {2}});
  EXPECT_EQ(find_parent_index(child, key, parent).misfit, Misfit::kTypes);
  parent.keys[1].parts[0].prefix_bytes = 3;
  EXPECT_EQ(find_parent_index(child, key, parent).misfit, Misfit::kPrefixIndex);
  EXPECT_EQ(find_parent_index(child, key, table({})).misfit, Misfit::kNoIndex);
}

TEST(ConstraintFit, an_index_of_hashes_does_not_serve) {
  TableDescription parent = table({{0}});
  parent.keys[0].is_long_hash = true;
  EXPECT_EQ(needed_index(parent, {"id"}), -1);
}

}  // namespace
}  // namespace atoll::table
