// Clones of tables inside a server: tables of their own whose rows lie in the table files of their sources.
//
// A table in a family of its own gets a family that shares its files (lsm::Families::clone_family): nothing
// is copied however large it is. The rows of a table in the shared family, whose files hold those of other
// tables too, are copied to another place there: such a table is small (atoll_shared_table_max).
//
// Invariants
//   SHARE-1  All clones of one call become visible in one write of the catalog, or none does. A crash leaves
//            families that the catalog does not know and rows at reserved places; the next opening drops
//            both.
//   SHARE-2  A clone has what was committed before the call: the caller keeps writers away from the sources
//            until the call returns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "lsm/rows.h"

namespace atoll::table {

// A table to clone, and the names that the clone gets, as in file names. A partitioned table has an order of
// its own, beside those of its partitions.
struct CloneOrder {
  catalog::TablePtr source;
  std::string database, name;
};

// Makes all the clones. `is_cancelled` is asked between two tables. Blocks: for flushes, and for uploads of
// files that are new. Errors: kDuplicate (a name is taken), kInterrupted, and those of
// lsm::Families::clone_family() and copy_entries().
Status clone_tables(lsm::Rows *rows, lsm::Families *families, catalog::Catalog *catalog,
                    const std::vector<CloneOrder> &orders, const std::function<bool()> &is_cancelled);

}  // namespace atoll::table
