// See refusals.h.
#include "handler/server.h"

#include <create_options.h>
#include <strings.h>

#include "handler/ddl/refusals.h"

#include "engine/running.h"
#include "handler/ddl/table_name.h"

namespace atoll::handler {
namespace {

const Foreign_key *foreign_key(THD *thd) {
  List_iterator_fast<Key> keys(thd->lex->alter_info.key_list);
  while (const Key *key = keys++)
    if (key->type == Key::FOREIGN_KEY) return static_cast<const Foreign_key *>(key);
  return nullptr;
}

std::string columns_of(const List<Key_part_spec> &columns) {
  std::string text;
  List_iterator_fast<Key_part_spec> each(const_cast<List<Key_part_spec> &>(columns));
  while (const Key_part_spec *column = each++)
    text += (text.empty() ? "" : ", ") + std::string(column->field_name.str);
  return "(" + text + ")";
}

// Returns the clause as text: "FOREIGN KEY name (a) REFERENCES db.parent (b)".
std::string text_of(const Foreign_key &key) {
  const LEX_CSTRING &name = key.constraint_name.str != nullptr ? key.constraint_name : key.name;
  std::string text = "FOREIGN KEY ";
  if (name.str != nullptr) text += std::string(name.str) + " ";
  text += columns_of(key.columns) + " REFERENCES ";
  if (key.ref_db.str != nullptr) text += std::string(key.ref_db.str) + ".";
  text += key.ref_table.str;
  return text + (key.ref_columns.elements == 0 ? "" : " " + columns_of(key.ref_columns));
}

Status refuse_foreign_key(THD *thd, const TABLE *form) {
  const Foreign_key *key = defines_table(thd) ? foreign_key(thd) : nullptr;
  if (key == nullptr) return Status::Ok();
  if (!engine::running()->statement_settings(thd).ignores_foreign_keys)
    return Status(Code::kInvalid,
                  text_of(*key) +
                      " cannot be enforced; remove the clause, keep the table in InnoDB, or accept "
                      "that nothing checks it: SET atoll_ignore_foreign_keys=ON");
  push_warning_printf(
      thd, Sql_condition::WARN_LEVEL_WARN, ER_ILLEGAL_HA,
      "ATOLL: table %s: %s is ignored (atoll_ignore_foreign_keys=ON); nothing checks references",
      shown_table(thd, form->s).c_str(), text_of(*key).c_str());
  return Status::Ok();
}

bool is_word(const LEX_CSTRING &text, const char *word) {
  return text.length == strlen(word) && strncasecmp(text.str, word, text.length) == 0;
}

}  // namespace

bool defines_table(const THD *thd) {
  return thd->lex->sql_command == SQLCOM_CREATE_TABLE || thd->lex->sql_command == SQLCOM_ALTER_TABLE;
}

Status refuse_unsupported(THD *thd, const TABLE *form) {
  ATOLL_RETURN_IF_ERROR(refuse_foreign_key(thd, form));
  for (uint i = 0; i < form->s->keys; i++) {
    const KEY &key = form->key_info[i];
    const bool fulltext = key.algorithm == HA_KEY_ALG_FULLTEXT || (key.flags & HA_FULLTEXT);
    if (!fulltext && !(key.flags & HA_SPATIAL)) continue;
    return Status(Code::kInvalid, std::string("ATOLL has no ") + (fulltext ? "FULLTEXT" : "SPATIAL") +
                                      " index; remove index " + key.name.str);
  }
  return Status::Ok();
}

Status refuse_encryption(const HA_CREATE_INFO *info) {
  for (const engine_option_value *option = info->option_list; option != nullptr; option = option->next) {
    if (option->value.str == nullptr || !is_word(option->name, "ENCRYPTED")) continue;
    if (is_word(option->value, "YES") || is_word(option->value, "ON") || is_word(option->value, "1"))
      return Status(Code::kInvalid,
                    "ATOLL does not encrypt tables; encrypt the bucket, and take the option away first: "
                    "ALTER TABLE ... ENCRYPTED=DEFAULT");
  }
  return Status::Ok();
}

}  // namespace atoll::handler
