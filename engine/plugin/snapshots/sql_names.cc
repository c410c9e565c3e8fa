// See sql_names.h.
#include "handler/server.h"

#include "plugin/snapshots/sql_names.h"

#include <climits>

#include "handler/ddl/table_name.h"
#include "handler/server/compat/names.h"

namespace atoll::plugin {
namespace {

constexpr size_t kExtensionBytes = 4;  // the length of ".frm", which ends the name of a table's file

// Refuses names with characters that utf8mb3 does not have. The server stores names in that character set,
// and would replace any other character by a question mark.
Status check_charset(const std::string &name) {
  if (Well_formed_prefix(system_charset_info, name.data(), name.size()).length() == name.size())
    return Status::Ok();
  return Status(Code::kInvalid, "a name has a character that names cannot have");
}

std::string kept(std::string name) {
  if (lower_case_table_names == 0) return name;
  return handler::in_lower_case(system_charset_info, std::move(name));
}

bool is_of_the_server(const std::string &name) {
  return name.starts_with("#mysql50#") || catalog::is_internal(name) || catalog::is_partition(name);
}

}  // namespace

Status read_schema_name(std::string *name) {
  ATOLL_RETURN_IF_ERROR(check_charset(*name));
  *name = kept(std::move(*name));
  const LEX_CSTRING shown{name->data(), name->size()};
  // The server would use a name with the prefix of old releases (#mysql50#) as a path without encoding it.
  if (name->starts_with("#mysql50#") || handler::is_bad_schema_name(name) || is_infoschema_db(&shown))
    return Status(Code::kInvalid, "'" + *name + "' is not a valid schema name");
  return Status::Ok();
}

Status read_table_name(std::string *name) {
  ATOLL_RETURN_IF_ERROR(check_charset(*name));
  *name = kept(std::move(*name));
  if (is_of_the_server(*name) || handler::is_bad_table_name(*name))
    return Status(Code::kInvalid, "'" + *name + "' is not a valid table name");
  if (handler::file_name_of(name->c_str()).size() + kExtensionBytes > NAME_MAX)
    return Status(Code::kInvalid, "the name of the table '" + *name + "' is too long for a file name");
  return Status::Ok();
}

}  // namespace atoll::plugin
