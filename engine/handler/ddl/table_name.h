// Names as the server hands them to engines: "./db/table", "./db/table#P#p0", or a path for TEMPORARY.
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

// The last two components of `path`.
TableName parse_table_name(const char *path);

// A name of the catalog, where names are encoded as file names are, as SQL writes it.
std::string sql_name(const std::string &file_name);
// The other way round.
std::string file_name_of(const char *sql_name);

// "db.table" for messages. Of the copy that an ALTER fills: that of the table it stands for.
std::string shown_table(const THD *thd, const TABLE_SHARE *share);

using catalog::is_internal;
using catalog::is_partition;
using catalog::whole_table;

}  // namespace atoll::handler
