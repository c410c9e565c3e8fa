// See table_name.h.
#include "handler/table_name.h"

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

}  // namespace atoll::handler
