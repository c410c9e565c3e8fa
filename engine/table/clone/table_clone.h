// Clones tables inside a server. A clone is an independent table that begins with the rows of its source.
//
// The clone of a table in a family of its own gets a new family that shares the table files of the source
// (lsm::Families::clone_family), so no row is copied, however large the table is. The files of the shared
// family hold rows of other tables too, so the rows of a table there are copied to another key prefix in that
// family. Such a table is small (atoll_shared_table_max).
//
// Invariants
//   SHARE-1  All clones of one call become visible in one write of the catalog, or none does. A crash before
//            that write leaves families that the catalog does not know and rows at reserved places. The next
//            opening of the catalog drops both.
//   SHARE-2  A clone has the rows that were committed before the call, because the caller keeps writers away
//            from the sources until the call returns. A source in a state of the past has no writers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "lsm/past/past_database.h"
#include "lsm/rows.h"

namespace atoll::table {

// A table to clone, and the names of the clone's database and of the clone, encoded as in file names. For a
// partitioned table the caller gives one order for the table as a whole and one for each partition.
struct CloneOrder {
  catalog::TablePtr source;
  std::string database, name;
  catalog::Belongings belongings;  // of the source
  // Whether the clone has the constraints FOREIGN KEY of its source. Those between tables of the source's
  // database then connect tables of the clone's. The clone of a single table has none, as CREATE TABLE ...
  // LIKE makes none: its parents would be those of the source, and its constraints would need other names.
  bool has_foreign_keys = false;
  // TableDef::former_name of the clone: the name that it gets later, for a clone under an internal name.
  std::string later_name = {};
};

// Where clones are made, and where their sources are.
struct ClonePlace {
  lsm::Rows *rows = nullptr;
  lsm::Families *families = nullptr;
  catalog::Catalog *catalog = nullptr;
  // The state of the past that has the sources, of lsm::PastDatabase::open_with_tables(). nullptr: they are
  // tables of the present.
  lsm::PastDatabase *past = nullptr;
};

// Makes all the clones. `is_cancelled` is asked before each table and while rows are copied. Blocks: for
// flushes, and for uploads of new files. Errors: kDuplicate (a name is taken), kInvalid (the name of a
// constraint is), kInterrupted, and those of lsm::Families::clone_family() and copy_entries().
Status clone_tables(const ClonePlace &place, const std::vector<CloneOrder> &orders,
                    const std::function<bool()> &is_cancelled);

}  // namespace atoll::table
