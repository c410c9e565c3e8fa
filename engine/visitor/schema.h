// Writes the columns and keys of tables as lines of text: `atollctl ls --schema`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"

namespace atoll::visitor {

// Returns the lines about the table, each without the fields that say which table it is: a line `table` with
// the version of the server that described it, and then a line `column` or `key` for each of them, with its
// name and its definition. If the catalog does not know the columns
// (catalog/description/table_description.h), the only line is `table` with an empty version. Fields are
// separated by tabs and written by escaped().
std::vector<std::string> schema_lines(const catalog::TableDef &table);

// Returns `text` with control characters and the sign @ as @ and four hexadecimal digits.
std::string escaped(std::string_view text);

// Returns the tables without all but the first partition of each partitioned table, because all partitions
// have the same columns.
std::vector<catalog::TablePtr> without_further_partitions(const std::vector<catalog::TablePtr> &tables);

}  // namespace atoll::visitor
