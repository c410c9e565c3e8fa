// Reads names of tables as users write them in the arguments of SQL functions.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace atoll::plugin {

struct TableText {
  std::string database;  // empty: the default database of the connection
  std::string table;
};

// Reads `table` or `database.table`. Each name may be in backticks; a backtick inside the name is then
// doubled. Errors: kInvalid.
Status parse_table_text(std::string_view text, TableText *out);

}  // namespace atoll::plugin
