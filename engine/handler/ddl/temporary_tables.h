// The definitions of TEMPORARY tables. They are only in this server's memory and gone after a restart. The
// rows of each table are in the temp database, a RocksDB database for temporary data, under a key prefix of
// the table's own.
#pragma once

#include <string>

#include "catalog/catalog.h"

namespace atoll::handler {

// The one list of this process. Threads: any; a mutex orders the calls.
class TemporaryTables {
 public:
  static catalog::TablePtr find(const std::string &path);
  // Gives `def` an id and a prefix and remembers it under `path`.
  static catalog::TablePtr add(const std::string &path, catalog::TableDef def);
  // Returns a new key prefix for other data in the temp database.
  static uint32_t take_prefix();
  static void rename(const std::string &from, const std::string &to);
  static void set_auto_increment(const std::string &path, uint64_t next);
  static uint64_t auto_increment(const std::string &path);  // 0: none was set
  // Removes and returns the definition; nullptr if there is none. The caller removes the rows of the table.
  static catalog::TablePtr remove(const std::string &path);
};

}  // namespace atoll::handler
