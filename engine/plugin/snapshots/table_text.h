// Names of tables as people write them in the arguments of functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace atoll::plugin {

struct TableText {
  std::string database;  // empty: the one in use
  std::string table;
};

// Reads `table` or `database.table`; each name may stand in backticks, with the backticks in it doubled.
// Errors: kInvalid.
Status parse_table_text(std::string_view text, TableText *out);

}  // namespace atoll::plugin
