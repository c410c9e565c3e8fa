// Goal:   split_sql() finds each statement of a file whole, and refuses a file that was cut off.
// Method: texts as users write them.
#include "plugin/masking/sql_file.h"

#include <gtest/gtest.h>

namespace atoll::plugin {
namespace {

using Statements = std::vector<std::string>;

Statements split(std::string_view text) {
  Statements statements;
  const Status status = split_sql(text, &statements);
  return status.ok() ? statements : Statements{status.message()};
}

TEST(SqlFileTest, a_statement_ends_with_a_semicolon_at_the_end_of_a_line) {
  EXPECT_EQ(split("UPDATE t SET a=1;\nUPDATE t\n  SET b='x;y',\n  c=2; \r\n"),
            (Statements{"UPDATE t SET a=1", "UPDATE t\n  SET b='x;y',\n  c=2"}));
}

TEST(SqlFileTest, comments_and_empty_lines_between_statements_are_left_out) {
  EXPECT_EQ(split("-- names\n\n  # mail\nUPDATE t SET a='\n# no comment\n';\n--end\n"),
            (Statements{"UPDATE t SET a='\n# no comment\n'"}));
}

TEST(SqlFileTest, a_file_that_was_cut_off_is_refused) {
  EXPECT_EQ(split("UPDATE t SET a=1;\nUPDATE t SET"),
            (Statements{"the last statement does not end with a semicolon at the end of a line"}));
}

TEST(SqlFileTest, a_file_without_a_statement_is_refused) {
  for (const char *text : {"", "\n\n", "-- only a comment\n", ";\n"})
    EXPECT_EQ(split(text), (Statements{"there is no statement in it"})) << text;
}

TEST(SqlFileTest, a_file_that_is_not_there_is_refused_by_its_name) {
  Statements statements;
  const Status status = read_sql_file("/nowhere/mask.sql", &statements);
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_NE(std::string(status.message()).find("/nowhere/mask.sql"), std::string::npos);
}

}  // namespace
}  // namespace atoll::plugin
