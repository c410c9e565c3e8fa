// Constraints FOREIGN KEY in an ALTER without a copy.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"
#include "lsm/family.h"

class Alter_inplace_info;
class THD;
struct TABLE;

namespace atoll::handler {

// Whether a column of a constraint, on either side, changes in a way that the server refuses for the sake of
// the constraint. It does so only in an ALTER with a copy, so the caller asks for one. Returns the reason for
// the user; nullptr: no such column changes.
const char *refuse_changed_columns(const catalog::TableDef &present, const TABLE *table,
                                   const Alter_inplace_info *info);

// Raises the error with which the server refuses such a column in an ALTER with a copy, also if foreign keys
// are not checked. In place InnoDB raises it, too, but only for a VARCHAR, and so does this function. True:
// an error was raised.
bool raise_changed_column(const catalog::TableDef &present, const TABLE *table,
                          const Alter_inplace_info *info);

// Whether the statement adds constraints that existing rows must be checked against. Then no session may
// write the table meanwhile.
bool must_check_rows(THD *thd, const Alter_inplace_info *info);

// Finds out what the statement changes about constraints, and checks that it may. `before`: the table in the
// catalog. `after`: as it will be. True: an error was raised.
bool plan_foreign_keys(TABLE *altered, const Alter_inplace_info *info, const catalog::TableDef &before,
                       const catalog::TableDef &after, catalog::ForeignKeyChanges *changes);

// Keeps other statements from writing the parents of the constraints, until the statement ends. True: an
// error was raised, for example because it took too long.
bool lock_parents(THD *thd, const catalog::TableDef &child, const std::vector<catalog::ForeignKeyDef> &keys);

// Checks that each row of the table has its rows in the parents. `child`: the table with its rows, in
// `family`; its names are those that it will have. Raises the error 1452 for the first constraint that a row
// violates; true: an error was raised. Requires: nobody writes the tables.
bool refuse_orphans(THD *thd, const catalog::TableDef &child, lsm::Family *family,
                    const std::vector<catalog::ForeignKeyDef> &keys);

// As refuse_orphans(), for a table that ALTER or CREATE ... SELECT has filled without checking each row; of
// an ALTER, only for constraints that are new. Locks the parents first. `def`: of the filled table.
bool refuse_orphans_of_copy(const TABLE *copy, const catalog::TableDef &def, lsm::Family *family);

}  // namespace atoll::handler
