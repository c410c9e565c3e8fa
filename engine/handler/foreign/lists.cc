// ha_atoll: what the server asks about the constraints FOREIGN KEY of a table, for SHOW CREATE TABLE, for
// INFORMATION_SCHEMA, for ALTER and TRUNCATE, and to lock the children of a table that a statement writes.
//
// The answers come from the catalog and not from the layout of the open table, because a RENAME or an ALTER
// of another table may have changed the constraints since this table was opened.
#include "handler/ha_atoll.h"

#include <new>
#include <set>

#include "base/border/border.h"
#include "engine/running.h"
#include "handler/ddl/table_name.h"
#include "handler/foreign/clause_text.h"
#include "table/foreign/constraint_fit.h"

namespace ah = atoll::handler;
namespace catalog = atoll::catalog;

namespace {

LEX_CSTRING *lex_string(THD *thd, const std::string &text) {
  return thd_make_lex_string(thd, nullptr, text.data(), text.size(), 1);
}

enum_fk_option option_of(catalog::ReferenceAction action) {
  switch (action) {
    case catalog::ReferenceAction::kCascade:
      return FK_OPTION_CASCADE;
    case catalog::ReferenceAction::kSetNull:
      return FK_OPTION_SET_NULL;
    case catalog::ReferenceAction::kNoAction:
      return FK_OPTION_NO_ACTION;
    case catalog::ReferenceAction::kRestrict:
    case catalog::ReferenceAction::kSetDefault:
      break;
  }
  return FK_OPTION_RESTRICT;
}

// Enters the columns of one side, and which of them can be NULL. `description`: of that side's table; it is
// unknown if there is no such table.
void add_columns(THD *thd, const std::vector<std::string> &columns,
                 const catalog::TableDescription &description, bool is_parent, FOREIGN_KEY_INFO *info) {
  const auto found = atoll::table::columns_of(description, columns);
  const auto count = static_cast<unsigned>(columns.size());
  for (unsigned i = 0; i < count; i++) {
    (is_parent ? info->referenced_fields : info->foreign_fields)
        .push_back(lex_string(thd, columns[i]), thd->mem_root);
    if (found[i] != nullptr && found[i]->nullable) info->set_nullable(thd, is_parent, i, count);
  }
}

FOREIGN_KEY_INFO *info_of(THD *thd, const catalog::TableDef &child, const catalog::ForeignKeyDef &key) {
  void *memory = thd_alloc(thd, sizeof(FOREIGN_KEY_INFO));
  if (memory == nullptr) return nullptr;
  auto *info = new (memory) FOREIGN_KEY_INFO();
  info->foreign_id = lex_string(thd, key.name);
  info->foreign_db = lex_string(thd, ah::sql_name(child.database));
  info->foreign_table = lex_string(thd, ah::sql_name(child.name));
  info->referenced_db = lex_string(thd, ah::sql_name(key.parent_database));
  info->referenced_table = lex_string(thd, ah::sql_name(key.parent_table));
  info->delete_method = option_of(key.on_delete);
  info->update_method = option_of(key.on_update);
  const catalog::TablePtr parent = ah::find_definition({key.parent_database, key.parent_table}).table;
  const catalog::TableDescription unknown;
  const catalog::TableDescription &described = parent ? parent->description : unknown;
  add_columns(thd, key.columns, child.description, false, info);
  add_columns(thd, key.parent_columns, described, true, info);
  const int index = atoll::table::find_parent_index(child.description, key, described).index;
  info->referenced_key_name =
      index < 0 ? nullptr : lex_string(thd, described.keys[static_cast<size_t>(index)].name);
  return info;
}

bool modifies(catalog::ReferenceAction action) {
  return action == catalog::ReferenceAction::kCascade || action == catalog::ReferenceAction::kSetNull;
}

// Whether the removal of a row of another table may change one of these columns of `table`: a constraint sets
// it NULL, or passes on a change of its parent.
bool may_change_by_removal(const catalog::TableDef &table, const std::vector<std::string> &columns) {
  const auto is_one = [&](const std::string &column) {
    return std::any_of(columns.begin(), columns.end(),
                       [&](const std::string &other) { return catalog::same_name(column, other); });
  };
  return std::any_of(table.foreign_keys.begin(), table.foreign_keys.end(), [&](const auto &key) {
    const bool changes = key.on_delete == catalog::ReferenceAction::kSetNull || modifies(key.on_update);
    return changes && std::any_of(key.columns.begin(), key.columns.end(), is_one);
  });
}

}  // namespace

// The definition with the present constraints. A mount shows those of its time.
catalog::TablePtr ha_atoll::present_definition() const {
  const catalog::TableDef &opened = layout()->def();
  if (open_table_.is_past() || is_temporary()) return layout()->def_ptr();
  const catalog::TablePtr present = atoll::engine::running()->catalog()->find(opened.id);
  return present ? present : layout()->def_ptr();
}

std::vector<catalog::TablePtr> ha_atoll::children() const {
  if (open_table_.is_past() || is_temporary()) return {};
  const catalog::TablePtr present = present_definition();
  const catalog::Catalog &all = *atoll::engine::running()->catalog();
  std::vector<catalog::TablePtr> children = all.children_of(present->database, present->name);
  // A child that an ALTER with a copy replaces right now counts by its name. The server then waits for the
  // ALTER before it opens the child for a cascade.
  for (const catalog::TablePtr &aside : all.children_of(present->database, present->name, true)) {
    auto child = std::make_shared<catalog::TableDef>(*aside);
    child->name = aside->former_name;
    children.push_back(std::move(child));
  }
  return children;
}

char *ha_atoll::get_foreign_key_create_info() {
  const std::string text = ah::show_create_text(ha_thd(), *present_definition());
  return text.empty() ? nullptr : my_strdup(PSI_NOT_INSTRUMENTED, text.c_str(), MYF(0));
}

void ha_atoll::free_foreign_key_create_info(char *text) noexcept { my_free(text); }

int ha_atoll::get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) {
  const catalog::TablePtr present = present_definition();
  for (const catalog::ForeignKeyDef &key : present->foreign_keys)
    if (FOREIGN_KEY_INFO *info = info_of(thd, *present, key)) list->push_back(info, thd->mem_root);
  return 0;
}

int ha_atoll::get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) {
  const catalog::TablePtr present = present_definition();
  for (const catalog::TablePtr &child : children())
    for (const catalog::ForeignKeyDef &key : child->foreign_keys) {
      if (key.parent_database != present->database || key.parent_table != present->name) continue;
      FOREIGN_KEY_INFO *info = info_of(thd, *child, key);
      if (info == nullptr) continue;
      // For a DELETE the server opens only tables that its ON DELETE actions change. It does not know that
      // one of these actions may change this table, and with it the child by ON UPDATE.
      if (modifies(key.on_update) && may_change_by_removal(*present, key.parent_columns))
        info->delete_method = info->update_method;
      list->push_back(info, thd->mem_root);
    }
  return 0;
}

// Without memory the answer is the one that is always safe: REPLACE then deletes rows in place of updating
// them.
bool ha_atoll::referenced_by_foreign_key() const noexcept {
  bool is_referenced = true;
  atoll::guarded_or_nothing([&] { is_referenced = open_table_.is_open() && !children().empty(); });
  return is_referenced;
}

// A table can change its engine only if no constraint connects it with another table. The server's error does
// not say which tables these are, so a warning does.
bool ha_atoll::can_switch_engines() {
  const catalog::TablePtr present = present_definition();
  std::set<std::string> connected;
  for (const catalog::ForeignKeyDef &key : present->foreign_keys)
    connected.insert(ah::quoted_table(ha_thd(), key.parent_database, key.parent_table));
  for (const catalog::TablePtr &child : children())
    connected.insert(ah::quoted_table(ha_thd(), child->database, child->name));
  if (connected.empty()) return true;
  std::string text;
  for (const std::string &table : connected) text += (text.empty() ? "" : ", ") + table;
  push_warning(ha_thd(), Sql_condition::WARN_LEVEL_WARN, ER_ROW_IS_REFERENCED,
               ("ATOLL: constraints FOREIGN KEY connect " +
                ah::quoted_table(ha_thd(), present->database, present->name) + " with " + text +
                ": drop them, change the engine of all these tables, and add them again")
                   .c_str());
  return false;
}

bool ha_atoll::is_fk_defined_on_table_or_index(uint index) {
  const catalog::TablePtr present = present_definition();
  if (index == MAX_KEY) return !present->foreign_keys.empty() || !children().empty();
  const auto uses = [&](const std::vector<std::string> &columns) {
    return atoll::table::needed_index(present->description, columns) == static_cast<int>(index);
  };
  for (const catalog::ForeignKeyDef &key : present->foreign_keys)
    if (uses(key.columns)) return true;
  for (const catalog::TablePtr &child : children())
    for (const catalog::ForeignKeyDef &key : child->foreign_keys)
      if (key.parent_database == present->database && key.parent_table == present->name &&
          uses(key.parent_columns))
        return true;
  return false;
}
