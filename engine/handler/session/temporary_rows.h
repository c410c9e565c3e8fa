// Removes the rows of a TEMPORARY table from the temp database.
#pragma once

#include "base/status.h"
#include "catalog/catalog.h"

namespace atoll::handler {

// Removes the rows that are stored. Rows that a transaction has written are stored when it commits, so the
// caller must call this again after the commit. Errors: kNoSpace, kUnavailable (local disk): the rows stay
// until the next start, which empties the temp database.
Status remove_temporary_rows(const catalog::TableDef &def);

}  // namespace atoll::handler
