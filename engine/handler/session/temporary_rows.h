// Removes the rows of a TEMPORARY table from the temp database.
#pragma once

#include "base/status.h"
#include "catalog/catalog.h"

namespace atoll::handler {

// Removes the rows that are stored. Rows that a transaction has written are stored when it commits, so this
// is called after the end of such a transaction (Session::drop_temporary). Errors: kNoSpace, kUnavailable
// (local disk): the rows stay until the next start, which empties the temp database.
Status remove_temporary_rows(const catalog::TableDef &def);

}  // namespace atoll::handler
