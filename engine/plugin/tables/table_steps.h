// The steps that SQL functions for whole tables have in common: reading names, checking what the user may do,
// locking names, bringing files to the bucket.
#pragma once

#include "handler/server.h"

#include <mdl.h>
#include <sql_acl.h>

#include <string>

#include "base/status.h"
#include "catalog/catalog.h"

namespace atoll::plugin {

// The error of a step that has reported an SQL error already. It has no message.
Status reported_error();

// The names of a table: in SQL (database, table) and in the catalog (directory, file).
struct TableNames {
  std::string database, table;
  std::string directory, file;

  std::string shown() const { return "'" + database + "." + table + "'"; }
};

TableNames table_names(const std::string &database, const std::string &table);
// Reads the name of a table as parse_table_text() does; without a schema, the table is in the one that is in
// use. Errors: kInvalid.
Status parse_table_names(THD *thd, const std::string &argument, TableNames *names);

// Checks that the schema exists. Errors: kInvalid.
Status check_is_there(const std::string &schema);
// Refuses the name of a table that exists, whatever its engine. Errors: kInvalid.
Status refuse_taken(THD *thd, const TableNames &names);
// Checks whether the statement is allowed to make or drop tables. Errors: kInvalid, kReadOnly, or
// reported_error().
Status may_change_tables(THD *thd);
// Checks that the user has the privileges on the table as a whole. check_one_table_access() also accepts a
// user who has them on some columns only, because the server checks the columns of its own statements later.
// But these functions use all columns. Errors: reported_error().
Status check_privileges(THD *thd, const TableNames &names, privilege_t privileges);

// Locks a name until the statement ends. Errors: reported_error().
Status lock_name(THD *thd, MDL_key::enum_mdl_namespace kind, const std::string &database,
                 const std::string &table, enum_mdl_type type);
// Locks the name of a table that the statement makes or removes, as CREATE TABLE does.
Status lock_name_of_new(THD *thd, const TableNames &names);

// Flushes the rows of the table and its partitions into table files. Errors: those of lsm::Rows::flush().
Status flush_table(const TableNames &names);
// Writes the .frm and .par files of a table of the catalog. If this fails, the server finds the table by
// discovery.
void write_definition_files(const TableNames &names);

}  // namespace atoll::plugin
