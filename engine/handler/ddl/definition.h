// Finds the definition of a table and the column family of its rows: in the present, or in a mounted state of
// the past.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "handler/ddl/table_name.h"
#include "lsm/family.h"

namespace atoll::handler {

struct Definition {
  catalog::TablePtr table;        // nullptr: there is no such table
  lsm::Family *family = nullptr;  // nullptr: the table's column family is missing
};

// Finds a table in the present or in a mount. This function and all below require a running engine.
Definition find_definition(const TableName &name);
// Returns the definitions of all tables of `database`, a directory name.
std::vector<catalog::TablePtr> definitions_in(std::string_view database);

// Whether `database`, a directory name, is a mount. A mount shows a state of the past, which no statement can
// change.
bool is_mounted(std::string_view database);
Status past_is_read_only();  // kReadOnly: the error for a change of a mounted table or schema
// Returns past_is_read_only() if `database` is mounted, else Ok.
Status refuse_mounted(std::string_view database);
// Whether the statement is DROP DATABASE. For a mounted schema that statement ends the mount (drop_database()
// in ddl.cc) and drops no table.
bool is_end_of_mounts(const THD *thd);

}  // namespace atoll::handler
