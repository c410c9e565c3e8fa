// Finds the table and the index to which a stored key belongs, for texts and views that users see.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "catalog/catalog.h"
#include "lsm/figures/figures.h"

namespace atoll::plugin {

// Knows only the tables that exist when the object is made.
class KeyOwners {
 public:
  explicit KeyOwners(const catalog::Catalog &catalog);

  // Returns the table to which a key belongs; nullptr: the table is TEMPORARY or was dropped.
  catalog::TablePtr table(uint32_t family_id, std::string_view key) const;
  // Returns the table that has the family for itself; nullptr for the shared family and the catalog's family.
  catalog::TablePtr sole_table(uint32_t family_id) const;
  // Returns the table to which all keys in the file belong; nullptr when several tables have keys there.
  catalog::TablePtr table(const lsm::TableFile &file) const;

  // Returns the name of the index to which a key belongs; "" for the rows of a table without a primary key.
  static std::string_view index_name(const catalog::TableDef &table, std::string_view key);
  // Returns the values in a key as text, such as (7, 'a'). A value that cannot be decoded is shown in
  // hexadecimal. So are all values while no connection has the table open.
  static std::string values(const catalog::TableDef &table, std::string_view key);

  // Returns the table and the index to which a key belongs, and its values, as a text for users: "db.table,
  // index name, key (7, 'a')".
  std::string place(uint32_t family_id, std::string_view key) const;

 private:
  std::map<std::pair<uint32_t, uint32_t>, catalog::TablePtr> owners_;  // by family and prefix
};

}  // namespace atoll::plugin
