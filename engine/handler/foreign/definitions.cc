// See definitions.h.
#include "handler/server.h"

#include "handler/foreign/definitions.h"

#include <algorithm>

#include "engine/running.h"
#include "handler/foreign/clauses.h"
#include "handler/foreign/clause_text.h"
#include "table/foreign/constraint_fit.h"

namespace atoll::handler {
namespace {

using catalog::ForeignKeyDef;
using catalog::TableDescription;

catalog::Catalog *all_tables() { return engine::running()->catalog(); }

// Whether the server's list of the new table's keys has the constraint as one that the table had before. The
// list lacks constraints that the statement drops.
bool is_kept(const Alter_info &info, const ForeignKeyDef &key) {
  List_iterator_fast<Key> keys(const_cast<List<Key> &>(info.key_list));
  while (const Key *each = keys++) {
    if (each->type != Key::FOREIGN_KEY || !each->old) continue;
    const LEX_CSTRING &name = static_cast<const Foreign_key *>(each)->constraint_name;
    if (catalog::same_name({name.str, name.length}, key.name)) return true;
  }
  return false;
}

std::vector<std::string> renamed(const std::map<std::string, std::string> &names,
                                 std::vector<std::string> columns) {
  for (std::string &column : columns)
    for (const auto &[from, to] : names)
      if (catalog::same_name(from, column)) {
        column = to;
        break;
      }
  return columns;
}

int fail_temporary(THD *thd, const TABLE *form) {
  const bool is_alter = thd->lex->sql_command == SQLCOM_ALTER_TABLE;
  const std::string text = std::string(is_alter ? "Alter " : "Create ") + " table `" + form->s->db.str +
                           "`.`" + form->s->table_name.str +
                           "` with foreign key constraint failed. Temporary tables can't have foreign key "
                           "constraints.";
  push_warning(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_CANNOT_ADD_FOREIGN, text.c_str());
  return HA_ERR_CANNOT_ADD_FOREIGN;
}

// Reads the new clauses of the statement into `def`, which has the constraints that stay.
int add_new(THD *thd, TABLE *form, const Alter_info &info, const catalog::TablePtr &original,
            catalog::TableDef *def) {
  if (first_new_clause(info) == nullptr || ignores_clauses(thd, form, &info)) return 0;
  ClauseContext context;
  context.thd = thd;
  context.is_alter = is_internal(def->name);
  context.table = *def;
  context.form = form;
  if (context.is_alter) {
    context.table.database = file_name_of(form->s->db.str);
    context.table.name = file_name_of(form->s->table_name.str);
    context.table.foreign_keys = original ? original->foreign_keys : std::vector<ForeignKeyDef>();
    context.former_name = original ? original->name : "";
  }
  ForeignKeyClauses clauses(std::move(context));
  if (const int error = clauses.read(info); error != 0) return error;
  def->foreign_keys.insert(def->foreign_keys.end(), clauses.added().begin(), clauses.added().end());
  return 0;
}

}  // namespace

bool checks_foreign_keys(const THD *thd) {
  return (thd->variables.option_bits & OPTION_NO_FOREIGN_KEY_CHECKS) == 0;
}

bool ignores_clauses(THD *thd, const TABLE *form, const Alter_info *info) {
  const Foreign_key *clause = info == nullptr ? nullptr : first_new_clause(*info);
  if (clause == nullptr || !engine::running()->statement_settings(thd).ignores_foreign_keys) return false;
  push_warning_printf(
      thd, Sql_condition::WARN_LEVEL_WARN, ER_ILLEGAL_HA,
      "ATOLL: table %s: %s is ignored (atoll_ignore_foreign_keys=ON); nothing checks references",
      shown_table(thd, form->s).c_str(), source_text(*clause).c_str());
  return true;
}

TableName altered_table(THD *thd, const TABLE *form) {
  const TableName own{file_name_of(form->s->db.str), file_name_of(form->s->table_name.str)};
  const TABLE_LIST *named = thd->lex->query_tables;
  if (all_tables()->find(own.database, own.table) || named == nullptr) return own;
  return {file_name_of(named->db.str), file_name_of(named->table_name.str)};
}

int define_foreign_keys(THD *thd, TABLE *form, const HA_CREATE_INFO *info, bool is_temporary,
                        catalog::TableDef *def) {
  const Alter_info *statement = info->alter_info;
  const bool is_copy = is_internal(def->name);
  if (is_temporary)
    return statement == nullptr || first_new_clause(*statement) == nullptr ||
                   ignores_clauses(thd, form, statement)
               ? 0
               : fail_temporary(thd, form);
  catalog::TablePtr original;
  if (is_copy) {
    const TableName altered = altered_table(thd, form);
    original = all_tables()->find(altered.database, altered.table);
  }
  if (statement == nullptr) return 0;
  catalog::ForeignKeyChanges dropped;
  if (original)
    for (const ForeignKeyDef &key : original->foreign_keys) {
      if (is_kept(*statement, key))
        def->foreign_keys.push_back(key);
      else
        dropped.dropped.push_back(key.name);
    }
  if (original && checks_foreign_keys(thd) && lacks_needed_index(*original, def->description, dropped))
    return HA_ERR_DROP_INDEX_FK;
  if (!is_copy && checks_foreign_keys(thd) && !fits_children(*def, def->database, def->name))
    return HA_ERR_CANNOT_ADD_FOREIGN;
  if (const int error = add_new(thd, form, *statement, original, def); error != 0) return error;
  catalog::sort_by_name(&def->foreign_keys);
  return 0;
}

bool lacks_needed_index(const catalog::TableDef &before, const TableDescription &altered,
                        const catalog::ForeignKeyChanges &changes) {
  const auto is_dropped = [&](const ForeignKeyDef &key) {
    return std::any_of(changes.dropped.begin(), changes.dropped.end(),
                       [&](const std::string &name) { return catalog::same_name(name, key.name); });
  };
  const auto lacks = [&](const std::vector<std::string> &columns) {
    const int served = table::needed_index(before.description, columns);
    if (served < 0 || table::needed_index(altered, renamed(changes.renamed_columns, columns)) >= 0)
      return false;
    my_error(ER_DROP_INDEX_FK, MYF(0), before.description.keys[static_cast<size_t>(served)].name.c_str());
    return true;
  };
  for (const catalog::TablePtr &child : all_tables()->children_of(before.database, before.name))
    for (const ForeignKeyDef &key : child->foreign_keys) {
      const bool refers = key.parent_database == before.database && key.parent_table == before.name;
      if (refers && !(child->id == before.id && is_dropped(key)) && lacks(key.parent_columns)) return true;
    }
  return std::any_of(before.foreign_keys.begin(), before.foreign_keys.end(),
                     [&](const ForeignKeyDef &key) { return !is_dropped(key) && lacks(key.columns); });
}

bool fits_children(const catalog::TableDef &def, const std::string &database, const std::string &name) {
  for (const catalog::TablePtr &child : all_tables()->children_of(database, name)) {
    if (!child->description.is_known()) continue;
    for (const ForeignKeyDef &key : child->foreign_keys) {
      if (key.parent_database != database || key.parent_table != name) continue;
      if (table::find_parent_index(child->description, key, def.description).index < 0) return false;
    }
  }
  return true;
}

bool is_still_referenced(THD *thd, const TableName &name) {
  if (is_internal(name.table) || !checks_foreign_keys(thd)) return false;
  // The server's recovery finishes a DROP or an ALTER that passed this check before the crash.
  if (all_tables()->holds_drops) return false;
  const bool drops_database = thd->lex->sql_command == SQLCOM_DROP_DB;
  const auto keeps = [&](const catalog::TablePtr &child) {
    const bool is_self = child->database == name.database && child->name == name.table;
    return !is_self && !(drops_database && child->database == name.database);
  };
  for (const auto &children : {all_tables()->children_of(name.database, name.table),
                               all_tables()->children_of(name.database, name.table, true)})
    if (std::any_of(children.begin(), children.end(), keeps)) return true;
  return false;
}

catalog::RenamedReferences renamed_references(THD *thd, const TableName &from, const TableName &to) {
  if (is_internal(to.table) || is_partition(to.table)) return {};
  TableName known = from;
  if (is_internal(from.table)) {
    // The last step of an ALTER with a copy. The children know the table under the name of the altered one.
    const TABLE_LIST *named = thd == nullptr ? nullptr : thd->lex->query_tables;
    if (named == nullptr || thd->lex->sql_command != SQLCOM_ALTER_TABLE) return {};
    known = {file_name_of(named->db.str), file_name_of(named->table_name.str)};
    if (known.database == to.database && known.table == to.table) return {};
  }
  return {known.database, known.table, generated_prefix(known.table), generated_prefix(to.table)};
}

}  // namespace atoll::handler
