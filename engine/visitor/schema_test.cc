// Goal:   the lines about a table have its columns and keys, and no name can break a line.
// Method: a definition made by hand.
#include "visitor/schema.h"

#include <gmock/gmock.h>

namespace atoll::visitor {
namespace {

using ::testing::ElementsAre;

catalog::TablePtr table(const char *name) {
  auto def = std::make_shared<catalog::TableDef>();
  def->database = "shop";
  def->name = name;
  return def;
}

TEST(Schema, columns_and_keys_have_a_line_each) {
  catalog::TableDef def = *table("orders");
  EXPECT_THAT(schema_lines(def), ElementsAre("table\t\t"));
  catalog::ColumnDescription id;
  id.name = "i\td@";
  id.length = 11;
  id.record_bytes = 4;
  def.description.server_version = 101118;
  def.description.columns = {id};
  def.description.keys = {{"PRIMARY", true, false, {{0, 0, true}}}};
  EXPECT_THAT(schema_lines(def), ElementsAre("table\t10.11.18\t", "column\ti@0009d@0040\tint(11) NOT NULL",
                                             "key\tPRIMARY\tUNIQUE (i@0009d@0040 DESC)"));
}

TEST(Schema, a_partitioned_table_is_shown_once) {
  const auto tables = without_further_partitions({table("a"), table("p#P#p0"), table("p#P#p1"), table("q")});
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[1]->name, "p#P#p0");
}

}  // namespace
}  // namespace atoll::visitor
