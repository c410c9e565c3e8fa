// Goal:   names of tables are read as SQL would read them, and other texts are refused.
// Method: texts that users may write, each with the names that it stands for.
#include "plugin/snapshots/table_text.h"

#include <gtest/gtest.h>

namespace atoll::plugin {
namespace {

// Returns "database|table", or "" when the text is refused.
std::string read(std::string_view text) {
  TableText name;
  if (!parse_table_text(text, &name).ok()) return "";
  return name.database + "|" + name.table;
}

TEST(TableText, reads_names_with_and_without_a_schema) {
  EXPECT_EQ(read("orders"), "|orders");
  EXPECT_EQ(read("shop.orders"), "shop|orders");
  EXPECT_EQ(read("shop.two words"), "shop|two words");
}

TEST(TableText, reads_names_in_backticks) {
  EXPECT_EQ(read("`shop`.`orders`"), "shop|orders");
  EXPECT_EQ(read("`a.b`.`c``d`"), "a.b|c`d");
  EXPECT_EQ(read("shop.`x.y`"), "shop|x.y");
  EXPECT_EQ(read("````"), "|`");
}

TEST(TableText, refuses_what_is_no_name) {
  for (const char *text : {"", ".", "shop.", ".orders", "a.b.c", "`a", "``", "`a`b", "`a`.", "a`b", "a.`b`c"})
    EXPECT_EQ(read(text), "") << text;
}

}  // namespace
}  // namespace atoll::plugin
