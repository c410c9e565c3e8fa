// See clause_text.h.
#include "handler/server.h"

#include <sql_show.h>

#include "handler/foreign/clause_text.h"

#include "handler/ddl/table_name.h"

namespace atoll::handler {
namespace {

std::string list_of(THD *thd, const std::vector<std::string> &columns) {
  std::string text;
  for (const std::string &column : columns) text += (text.empty() ? "" : ", ") + quoted(thd, column);
  return "(" + text + ")";
}

// Empty: the action is not shown.
const char *text_of(catalog::ReferenceAction action) {
  switch (action) {
    case catalog::ReferenceAction::kCascade:
      return "CASCADE";
    case catalog::ReferenceAction::kSetNull:
      return "SET NULL";
    case catalog::ReferenceAction::kNoAction:
      return "NO ACTION";
    case catalog::ReferenceAction::kRestrict:
    case catalog::ReferenceAction::kSetDefault:
      break;
  }
  return "";
}

std::string action_text(const char *event, catalog::ReferenceAction action) {
  const std::string text = text_of(action);
  return text.empty() ? text : event + text;
}

}  // namespace

std::string quoted(THD *thd, const std::string &name) {
  StringBuffer<NAME_LEN * 2> text(system_charset_info);
  append_identifier(thd, &text, name.data(), name.size());
  return {text.ptr(), text.length()};
}

std::string quoted_table(THD *thd, const std::string &database, const std::string &table) {
  return quoted(thd, sql_name(database)) + "." + quoted(thd, sql_name(table));
}

std::string clause_text(THD *thd, const catalog::TableDef &child, const catalog::ForeignKeyDef &key) {
  const bool is_near = key.parent_database == child.database;
  return "CONSTRAINT " + quoted(thd, key.name) + " FOREIGN KEY " + list_of(thd, key.columns) +
         " REFERENCES " +
         (is_near ? quoted(thd, sql_name(key.parent_table))
                  : quoted_table(thd, key.parent_database, key.parent_table)) +
         " " + list_of(thd, key.parent_columns) + action_text(" ON DELETE ", key.on_delete) +
         action_text(" ON UPDATE ", key.on_update);
}

std::string show_create_text(THD *thd, const catalog::TableDef &child) {
  std::string text;
  for (const catalog::ForeignKeyDef &key : child.foreign_keys) text += ",\n  " + clause_text(thd, child, key);
  return text;
}

}  // namespace atoll::handler
