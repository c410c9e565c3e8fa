// Reads table names in the forms that the server gives to engines: "./db/table", "./db/table#P#p0", or a path
// for a TEMPORARY table.
#pragma once

#include <string>

#include "base/namespace.h"
#include "catalog/catalog.h"

class THD;
struct TABLE_SHARE;

namespace atoll::handler {

struct TableName {
  std::string database;
  std::string table;
};

// Returns the last two components of `path`, as the names of a database and a table.
TableName parse_table_name(const char *path);

// Decodes a name of the catalog, which is encoded like a file name, to the form that SQL uses.
std::string sql_name(const std::string &file_name);
// The inverse of sql_name().
std::string file_name_of(const char *sql_name);

// Returns "db.table" for messages. For the copy that an ALTER fills, this is the name of the altered table.
std::string shown_table(const THD *thd, const TABLE_SHARE *share);

using catalog::is_internal;
using catalog::is_partition;
using catalog::whole_table;

}  // namespace atoll::handler
