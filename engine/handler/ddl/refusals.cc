// See refusals.h.
#include "handler/server.h"

#include <create_options.h>
#include <strings.h>

#include "handler/ddl/refusals.h"
#include "handler/server/compat/names.h"

namespace atoll::handler {
namespace {

bool is_word(const LEX_CSTRING &text, const char *word) {
  return text.length == strlen(word) && strncasecmp(text.str, word, text.length) == 0;
}

}  // namespace

bool defines_table(const THD *thd) {
  return thd->lex->sql_command == SQLCOM_CREATE_TABLE || thd->lex->sql_command == SQLCOM_ALTER_TABLE;
}

Status refuse_unsupported(const TABLE *form) {
  if (has_index_of_server(form->s)) return Status(Code::kInvalid, "ATOLL has no VECTOR index yet; remove it");
  for (uint i = 0; i < form->s->keys; i++) {
    const KEY &key = form->key_info[i];
    const bool fulltext = is_fulltext(key);
    if (!fulltext && !is_spatial(key)) continue;
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
