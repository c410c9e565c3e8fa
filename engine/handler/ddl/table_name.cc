// See table_name.h.
#include "handler/server.h"

#include "handler/ddl/table_name.h"

#include <cstring>

namespace atoll::handler {

TableName parse_table_name(const char *path) {
  const std::string full(path);
  const size_t table = full.find_last_of('/');
  if (table == std::string::npos) return {"", full};
  const size_t database = table == 0 ? std::string::npos : full.find_last_of('/', table - 1);
  const size_t begin = database == std::string::npos ? 0 : database + 1;
  return {full.substr(begin, table - begin), full.substr(table + 1)};
}

std::string sql_name(const std::string &file_name) {
  char decoded[NAME_LEN + 1];
  return {decoded, filename_to_tablename(file_name.c_str(), decoded, sizeof(decoded), true)};
}

std::string file_name_of(const char *sql_name) {
  char encoded[FN_REFLEN];
  const uint length = tablename_to_filename(sql_name, encoded, sizeof encoded);
  return std::string(encoded, length);
}

std::string shown_table(const THD *thd, const TABLE_SHARE *share) {
  const TABLE_LIST *named = thd == nullptr ? nullptr : thd->lex->query_tables;
  if (named != nullptr && is_internal({share->table_name.str, share->table_name.length}))
    return std::string(named->db.str) + "." + named->table_name.str;
  return std::string(share->db.str, share->db.length) + "." +
         std::string(share->table_name.str, share->table_name.length);
}

}  // namespace atoll::handler
