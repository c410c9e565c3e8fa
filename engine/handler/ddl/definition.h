// Where a table is defined and where its rows are: in the present, or in a mounted state of the past.
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
  lsm::Family *family = nullptr;  // nullptr: it is missing
};

// Requires: an engine runs, here and below.
Definition find_definition(const TableName &name);
// The definitions of all tables of `database`, a directory name.
std::vector<catalog::TablePtr> definitions_in(std::string_view database);

// Whether `database`, a directory name, is a mount: it shows the past, which nothing changes.
bool is_mounted(std::string_view database);
Status past_is_read_only();  // kReadOnly
// past_is_read_only() when `database` is mounted.
Status refuse_mounted(std::string_view database);
// DROP DATABASE of a mounted schema ends the mount (drop_database() in ddl.cc), and drops no table.
bool is_end_of_mounts(const THD *thd);

}  // namespace atoll::handler
