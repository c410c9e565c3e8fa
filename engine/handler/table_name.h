// Names as the server hands them to engines: "./db/table", "./db/table#P#p0", or a path for TEMPORARY.
#pragma once

#include <string>

#include "base/namespace.h"
#include "catalog/catalog.h"

namespace atoll::handler {

struct TableName {
  std::string database;
  std::string table;
};

// The last two components of `path`.
TableName parse_table_name(const char *path);

using catalog::is_internal;
using catalog::is_partition;
using catalog::whole_table;

}  // namespace atoll::handler
