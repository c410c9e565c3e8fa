// Definitions of TEMPORARY tables: in memory, this server only, gone at restart. Their rows are in the temp
// database, under a prefix of their own.
#pragma once

#include <string>

#include "catalog/catalog.h"

namespace atoll::handler {

class TemporaryTables {
 public:
  static catalog::TablePtr find(const std::string &path);
  // Gives `def` an id and a prefix and remembers it under `path`.
  static catalog::TablePtr add(const std::string &path, catalog::TableDef def);
  // A key prefix of its own for other rows in the temp database.
  static uint32_t take_prefix();
  static void rename(const std::string &from, const std::string &to);
  static void set_auto_increment(const std::string &path, uint64_t next);
  static uint64_t auto_increment(const std::string &path);  // 0: none given
  // Removes and returns the definition, nullptr if there was none. The caller removes the rows.
  static catalog::TablePtr remove(const std::string &path);
};

}  // namespace atoll::handler
