// See alter.h.
#include "handler/server.h"

#include "handler/foreign/alter.h"

#include <algorithm>
#include <optional>

#include "engine/running.h"
#include "handler/alter/alter_definition.h"
#include "handler/ddl/definition.h"
#include "handler/ddl/prepared_writers.h"
#include "handler/foreign/clause_text.h"
#include "handler/foreign/clauses.h"
#include "handler/foreign/definitions.h"
#include "handler/foreign/latest_error.h"
#include "handler/layout.h"
#include "handler/server/compat/names.h"
#include "handler/server/error_map.h"
#include "table/foreign/orphan_search.h"

namespace atoll::handler {
namespace {

using catalog::ForeignKeyDef;

catalog::Catalog *all_tables() { return engine::running()->catalog(); }

// Calls `use` for each constraint of the table, and for each that refers to it, with the columns of the
// table. `use` gets the constraint, its child and the columns, and returns whether to stop.
template <typename Use>
bool any_constraint(const catalog::TableDef &table, Use &&use) {
  for (const ForeignKeyDef &key : table.foreign_keys)
    if (use(key, table, key.columns, false)) return true;
  for (const catalog::TablePtr &child : all_tables()->children_of(table.database, table.name))
    for (const ForeignKeyDef &key : child->foreign_keys)
      if (key.parent_database == table.database && key.parent_table == table.name &&
          use(key, *child, key.parent_columns, true))
        return true;
  return false;
}

const Field *field_named(const TABLE *table, const std::string &name) {
  for (Field **field = table->field; *field != nullptr; field++)
    if (catalog::same_name({(*field)->field_name.str, (*field)->field_name.length}, name)) return *field;
  return nullptr;
}

// The definition that the column gets; nullptr: the statement drops it.
Create_field *definition_of(const Alter_inplace_info *info, const Field *field) {
  List_iterator_fast<Create_field> definitions(info->alter_info->create_list);
  while (Create_field *definition = definitions++)
    if (definition->field == field) return definition;
  return nullptr;
}

bool is_dropped(const Alter_inplace_info *info, const std::string &constraint) {
  List_iterator_fast<Alter_drop> drops(info->alter_info->drop_list);
  while (const Alter_drop *drop = drops++)
    if (drop->type == Alter_drop::FOREIGN_KEY && catalog::same_name(view_of(drop->name), constraint))
      return true;
  return false;
}

// A column of a constraint that the statement drops. Raises the error.
bool drops_column(TABLE *altered, const Alter_inplace_info *info, const catalog::TableDef &before,
                  const catalog::ForeignKeyChanges &changes) {
  const auto is_gone = [&](const std::string &column) {
    const auto renamed =
        std::find_if(changes.renamed_columns.begin(), changes.renamed_columns.end(),
                     [&](const auto &pair) { return catalog::same_name(pair.first, column); });
    return field_named(altered, renamed == changes.renamed_columns.end() ? column : renamed->second) ==
           nullptr;
  };
  return any_constraint(before, [&](const ForeignKeyDef &key, const catalog::TableDef &child,
                                    const std::vector<std::string> &columns, bool is_parent) {
    if (child.id == before.id && is_dropped(info, key.name)) return false;
    const auto gone = std::find_if(columns.begin(), columns.end(), is_gone);
    if (gone == columns.end()) return false;
    const std::string id = child.database + "/" + key.name;
    if (is_parent)
      my_error(ER_FK_COLUMN_CANNOT_DROP_CHILD, MYF(0), gone->c_str(), id.c_str(),
               quoted_table(altered->in_use, child.database, child.name).c_str());
    else
      my_error(ER_FK_COLUMN_CANNOT_DROP, MYF(0), gone->c_str(), id.c_str());
    return true;
  });
}

// Raises the error with which CREATE TABLE refuses a constraint, as an ALTER with a copy would.
void raise_as_create(const catalog::TableDef &table, int error) {
  const std::string database = sql_name(table.database), name = sql_name(table.name);
  if (error != HA_ERR_CANNOT_ADD_FOREIGN && error != HA_ERR_FOUND_DUPP_KEY) return;  // raised already
  my_error(ER_CANT_CREATE_TABLE, MYF(0), database.c_str(), name.c_str(), error);
  const uint code = error == HA_ERR_FOUND_DUPP_KEY ? ER_DUP_KEY : ER_CANNOT_ADD_FOREIGN;
  my_error(code, MYF(ME_WARNING), name.c_str());
}

// Raises the error with which InnoDB refuses a constraint in place, which it does with foreign_key_checks=0.
void raise_as_in_place(const ForeignKeyClauses &clauses, const catalog::TableDef &table, int error) {
  const std::string id = table.database + "/" + clauses.name();
  const Foreign_key *clause = clauses.clause();
  switch (clauses.error()) {
    case ClauseError::kParentIndex:
      my_error(ER_FK_NO_INDEX_PARENT, MYF(0), clause->name.str != nullptr ? clause->name.str : "",
               clause->ref_table.str);
      return;
    case ClauseError::kName:
      my_error(ER_DUP_CONSTRAINT_NAME, MYF(0), "FOREIGN KEY", id.c_str());
      return;
    case ClauseError::kSetNull:
      my_error(ER_FK_INCORRECT_OPTION, MYF(0), sql_name(table.name).c_str(), id.c_str());
      return;
    case ClauseError::kNone:
    case ClauseError::kOther:
      break;
  }
  raise_as_create(table, error);
}

bool read_added(TABLE *altered, const Alter_inplace_info *info, const catalog::TableDef &before,
                const catalog::TableDef &after, std::vector<ForeignKeyDef> *added) {
  THD *thd = altered->in_use;
  const Alter_info &statement = *info->alter_info;
  if (first_new_clause(statement) == nullptr || ignores_clauses(thd, altered, &statement)) return false;
  ClauseContext context;
  context.thd = thd;
  context.is_alter = true;
  context.table = after;
  context.table.foreign_keys = before.foreign_keys;
  context.form = altered;
  context.warns = checks_foreign_keys(thd);
  ForeignKeyClauses clauses(std::move(context));
  const int error = clauses.read(statement);
  if (error != 0 && checks_foreign_keys(thd)) raise_as_create(after, error);
  if (error != 0 && !checks_foreign_keys(thd)) raise_as_in_place(clauses, after, error);
  *added = clauses.added();
  return error != 0;
}

}  // namespace

namespace {

// A column of a constraint that the statement gives another type.
struct ChangedColumn {
  std::string column;
  std::string constraint, child;  // as database/name; child: empty if the table is the child itself
};

std::optional<ChangedColumn> changed_column(const catalog::TableDef &present, const TABLE *table,
                                            const Alter_inplace_info *info) {
  const auto changes_type = [&](const std::string &column) {
    const Field *field = field_named(table, column);
    Create_field *definition = field == nullptr ? nullptr : definition_of(info, field);
    if (definition == nullptr) return false;
    const uint flags = definition->flags;
    definition->flags &= ~AUTO_INCREMENT_FLAG;  // it changes no value
    const bool is_other = field->is_equal(*definition) == IS_EQUAL_NO;
    definition->flags = flags;
    return is_other;
  };
  std::optional<ChangedColumn> found;
  any_constraint(present, [&](const ForeignKeyDef &key, const catalog::TableDef &child,
                              const std::vector<std::string> &columns, bool is_parent) {
    if (child.id == present.id && is_dropped(info, key.name)) return false;
    const auto column = std::find_if(columns.begin(), columns.end(), changes_type);
    if (column == columns.end()) return false;
    found = {*column, child.database + "/" + key.name, is_parent ? child.database + "/" + child.name : ""};
    return true;
  });
  return found;
}

}  // namespace

const char *refuse_changed_columns(const catalog::TableDef &present, const TABLE *table,
                                   const Alter_inplace_info *info) {
  return changed_column(present, table, info) ? "the type of a column of a foreign key changes" : nullptr;
}

bool raise_changed_column(const catalog::TableDef &present, const TABLE *table,
                          const Alter_inplace_info *info) {
  const auto found = changed_column(present, table, info);
  if (!found || field_named(table, found->column)->real_type() != MYSQL_TYPE_VARCHAR) return false;
  if (found->child.empty())
    my_error(ER_FK_COLUMN_CANNOT_CHANGE, MYF(0), found->column.c_str(), found->constraint.c_str());
  else
    my_error(ER_FK_COLUMN_CANNOT_CHANGE_CHILD, MYF(0), found->column.c_str(), found->constraint.c_str(),
             found->child.c_str());
  return true;
}

bool must_check_rows(THD *thd, const Alter_inplace_info *info) {
  return (info->handler_flags & ALTER_ADD_FOREIGN_KEY) != 0 && checks_foreign_keys(thd) &&
         first_new_clause(*info->alter_info) != nullptr &&
         !engine::running()->statement_settings(thd).ignores_foreign_keys;
}

bool plan_foreign_keys(TABLE *altered, const Alter_inplace_info *info, const catalog::TableDef &before,
                       const catalog::TableDef &after, catalog::ForeignKeyChanges *changes) {
  THD *thd = altered->in_use;
  for (const ForeignKeyDef &key : before.foreign_keys)
    if (is_dropped(info, key.name)) changes->dropped.push_back(key.name);
  List_iterator_fast<Create_field> definitions(info->alter_info->create_list);
  while (const Create_field *column = definitions++) {
    if (column->field == nullptr) continue;
    const LEX_CSTRING &from = column->field->field_name, &to = column->field_name;
    if (std::string_view(from.str, from.length) != std::string_view(to.str, to.length))
      changes->renamed_columns[std::string(from.str, from.length)] = std::string(to.str, to.length);
  }
  if (checks_foreign_keys(thd) && lacks_needed_index(before, after.description, *changes)) return true;
  if (drops_column(altered, info, before, *changes)) return true;
  return read_added(altered, info, before, after, &changes->added);
}

bool lock_parents(THD *thd, const catalog::TableDef &child, const std::vector<ForeignKeyDef> &keys) {
  for (const ForeignKeyDef &key : keys) {
    if (key.parent_database == child.database && key.parent_table == child.name) continue;
    const std::string database = sql_name(key.parent_database), table = sql_name(key.parent_table);
    MDL_request request;
    MDL_REQUEST_INIT(&request, MDL_key::TABLE, database.c_str(), table.c_str(), MDL_SHARED_NO_WRITE,
                     MDL_TRANSACTION);
    if (thd->mdl_context.acquire_lock(&request, thd->variables.lock_wait_timeout)) return true;
    const catalog::TablePtr parent = all_tables()->find(key.parent_database, key.parent_table);
    if (parent && refuse_for_prepared_writers(*parent)) return true;
  }
  return false;
}

bool refuse_orphans(THD *thd, const catalog::TableDef &child, lsm::Family *family,
                    const std::vector<ForeignKeyDef> &keys) {
  engine::Engine *running = engine::running();
  const auto def = std::make_shared<const catalog::TableDef>(child);
  for (const ForeignKeyDef &key : keys) {
    const bool is_self = key.parent_database == child.database && key.parent_table == child.name;
    const Definition parent =
        is_self ? Definition{def, family} : find_definition({key.parent_database, key.parent_table});
    if (!parent.table) continue;
    table::OrphanSearch search;
    search.key = key;
    search.threads = running->statement_settings(thd).scan_threads;
    search.figures = running->database();
    search.is_unwanted = [thd] { return is_statement_killed(thd); };
    bool found = false;
    Status status = described_layout(def, family, &search.child);
    if (status.ok()) status = described_layout(parent.table, parent.family, &search.parent);
    if (status.ok()) status = table::find_orphan(search, &found);
    if (!status.ok()) {
      if (status.code() == Code::kInterrupted)
        my_error(ER_QUERY_INTERRUPTED, MYF(0));
      else
        my_printf_error(ER_INTERNAL_ERROR, "ATOLL: checking the rows of table %s failed: %s", MYF(0),
                        sql_name(child.name).c_str(), status.message());
      return true;
    }
    if (!found) continue;
    const std::string text =
        quoted_table(thd, child.database, child.name) + ", " + clause_text(thd, child, key);
    note_foreign_key_error("ALTER TABLE " + text + ": a row has no row in the referenced table");
    my_error(ER_NO_REFERENCED_ROW_2, MYF(0), text.c_str());
    return true;
  }
  return false;
}

bool refuse_orphans_of_copy(const TABLE *copy, const catalog::TableDef &def, lsm::Family *family) {
  THD *thd = copy->in_use;
  if (def.foreign_keys.empty() || !checks_foreign_keys(thd)) return false;
  catalog::TablePtr original;
  if (is_internal(def.name)) {
    const TableName altered = altered_table(thd, copy);
    original = all_tables()->find(altered.database, altered.table);
  }
  std::vector<ForeignKeyDef> added = def.foreign_keys;
  std::erase_if(added, [&](const ForeignKeyDef &key) {
    return original && std::any_of(original->foreign_keys.begin(), original->foreign_keys.end(),
                                   [&](const ForeignKeyDef &old) { return old.name == key.name; });
  });
  catalog::TableDef child = def;
  child.database = file_name_of(copy->s->db.str);
  child.name = file_name_of(copy->s->table_name.str);
  return lock_parents(thd, child, added) || refuse_orphans(thd, child, family, added);
}

}  // namespace atoll::handler
