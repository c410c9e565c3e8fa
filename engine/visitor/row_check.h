// Reads all rows and index entries of a table in one state, to find damage. RocksDB checks the checksum of
// each block.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "catalog/catalog.h"
#include "lsm/past/past_database.h"

namespace atoll::visitor {

struct StoredTable {
  uint64_t rows = 0;
  uint64_t entries = 0;  // the entries of all indexes but the primary one
  std::string problem;   // what is damaged; empty: nothing
};

// Counts the rows and the entries of each index, which must have one entry for each row, and joins rows that
// are stored in pieces. Does not decode the rows: CHECK TABLE does that. Damage is not an error:
// StoredTable::problem describes it. Errors: kUnavailable: the same call may succeed later; kInterrupted
// (base/interrupt.h).
Status read_table(lsm::PastDatabase *state, const catalog::TableDef &table, StoredTable *out);

}  // namespace atoll::visitor
