// Looks for rows of a table that violate a new constraint FOREIGN KEY: rows without NULL in the columns of
// the constraint for which the parent has no row.
//
// The search reads the index of the child that the constraint needs, with several threads, and seeks each new
// value in the index of the parent. Both indexes have mostly the same order, so the seeks go forward.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "catalog/catalog.h"
#include "lsm/figures/figures.h"
#include "table/layout.h"

namespace atoll::table {

struct OrphanSearch {
  // Both with records of the form catalog::own_record(). They may be the same.
  std::shared_ptr<const Layout> child, parent;
  catalog::ForeignKeyDef key;
  size_t threads = 1;
  lsm::Figures *figures = nullptr;
  std::function<bool()> is_unwanted;  // whether the statement was killed
};

// *found: whether there is such a row. Reads the newest committed rows. Requires: nobody writes either table.
// Errors: kInvalid: the constraint does not fit the tables; kInterrupted; as a read.
Status find_orphan(const OrphanSearch &search, bool *found);

}  // namespace atoll::table
