// Finds the definition of a table and the column family of its rows: in the present, in a mounted state of
// the past, or, on a reader, in the view that the connection reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "engine/views.h"
#include "handler/ddl/table_name.h"
#include "lsm/family.h"

namespace atoll::handler {

struct Definition {
  catalog::TablePtr table;        // nullptr: there is no such table
  lsm::Family *family = nullptr;  // nullptr: the table's column family is missing
};

// Finds a table in the present, in a mount or in shown_view(). This function and all below require a running
// engine.
Definition find_definition(const TableName &name);
// On a reader: the view that the transaction of the calling thread reads; the newest one if it has read none.
// nullptr: this server is no reader.
engine::ViewPtr shown_view();
// Returns the definitions of all tables of `database`, a directory name.
std::vector<catalog::TablePtr> definitions_in(std::string_view database);

// Whether `database`, a directory name, is a mount, or a database on a reader. No statement can change what
// these show.
bool is_mounted(std::string_view database);
// kReadOnly: the error for a change of a mounted table or schema, or of a table on a reader.
Status past_is_read_only();
// Returns past_is_read_only() if `database` is mounted, else Ok.
Status refuse_mounted(std::string_view database);
// Refuses a table whose definition a server of a newer series has written, for example 11.8 on 10.11: it may
// use collations, types and time stamps that this server would misread. `server_version`: as
// MYSQL_VERSION_ID; 0: not known. Such a table can still be dropped. Errors: kReadOnly names both servers.
Status refuse_newer_series(uint32_t server_version, const TableName &name);
// Whether the statement is DROP DATABASE. For a mounted schema that statement ends the mount (drop_database()
// in ddl.cc) and drops no table.
bool is_end_of_mounts(const THD *thd);

}  // namespace atoll::handler
