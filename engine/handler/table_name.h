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

// True for a partition ("t#P#p0").
bool is_partition(const std::string &table);

// The table's name, of a partition that of its whole table. Works on paths as well.
std::string whole_table(const std::string &name);

using catalog::is_internal;

}  // namespace atoll::handler
