// Constraints FOREIGN KEY in CREATE, DROP and RENAME, and in an ALTER that copies its table.
#pragma once

#include <string>

#include "catalog/catalog.h"
#include "handler/ddl/table_name.h"

class Alter_info;
class THD;
struct HA_CREATE_INFO;
struct TABLE;

namespace atoll::handler {

// Whether the statement checks references: SET foreign_key_checks=0 is not in force.
bool checks_foreign_keys(const THD *thd);

// Whether the clauses of the statement are ignored (atoll_ignore_foreign_keys). If so, warns of the first
// one.
bool ignores_clauses(THD *thd, const TABLE *form, const Alter_info *info);

// The table that ALTER TABLE names, of which `form` is the new form: a table that was just made, or the copy
// that the statement fills. The server gives the new table of an ALTER with RENAME its new name.
TableName altered_table(THD *thd, const TABLE *form);

// Reads the constraints of a table that create() makes, and enters them in `def`. A copy that an ALTER fills
// gets those of the altered table that the statement does not drop, and the new ones. Checks also that the
// table fits constraints of other tables that name it. Requires: `def` has its names and its description.
// Returns 0 or the handler error with which create() fails; the reason is a warning, or the error itself.
int define_foreign_keys(THD *thd, TABLE *form, const HA_CREATE_INFO *info, bool is_temporary,
                        catalog::TableDef *def);

// Whether an index that a constraint needs is missing in the altered definition. If so, raises the error 1553
// for it. `before`: the table in the catalog. `dropped`: constraints that the ALTER drops. `renamed`: columns
// that it renames.
bool lacks_needed_index(const catalog::TableDef &before, const catalog::TableDescription &altered,
                        const catalog::ForeignKeyChanges &changes);

// Whether the table fits all constraints of other tables that name a table `database`.`name`.
bool fits_children(const catalog::TableDef &def, const std::string &database, const std::string &name);

// Whether DROP TABLE must fail because another table refers to the table. In DROP DATABASE, tables of the
// same database do not count.
bool is_still_referenced(THD *thd, const TableName &name);

// What changes in constraints when a table is renamed.
catalog::RenamedReferences renamed_references(THD *thd, const TableName &from, const TableName &to);

}  // namespace atoll::handler
