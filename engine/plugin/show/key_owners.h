// Which table and index a stored key belongs to, for what people are shown.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "catalog/catalog.h"
#include "lsm/figures/figures.h"

namespace atoll::plugin {

// Knows the tables that exist when it is made.
class KeyOwners {
 public:
  explicit KeyOwners(const catalog::Catalog &catalog);

  // The table that a key belongs to. nullptr: it is TEMPORARY, or was dropped meanwhile.
  catalog::TablePtr table(uint32_t family_id, std::string_view key) const;
  // The only table of a family; nullptr for the shared family and the catalog.
  catalog::TablePtr sole_table(uint32_t family_id) const;
  // The table whose keys alone are in the file; nullptr when several share it.
  catalog::TablePtr table(const lsm::TableFile &file) const;

  // The index of a key; "" for the rows of a table without primary key.
  static std::string_view index_name(const catalog::TableDef &table, std::string_view key);
  // Returns the values in a key as text: (7, 'a'). A value that cannot be decoded is shown in hexadecimal,
  // and so are all values while no connection has the table open.
  static std::string values(const catalog::TableDef &table, std::string_view key);

  // "db.table, index name, key (7, 'a')".
  std::string place(uint32_t family_id, std::string_view key) const;

 private:
  std::map<std::pair<uint32_t, uint32_t>, catalog::TablePtr> owners_;  // by family and prefix
};

}  // namespace atoll::plugin
