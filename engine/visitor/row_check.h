// Reads all that is stored of a table in one state. RocksDB compares the checksum of each block.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "catalog/catalog.h"
#include "lsm/past/past_database.h"

namespace atoll::visitor {

struct StoredTable {
  uint64_t rows = 0;
  uint64_t entries = 0;  // of all indexes but the primary one
  std::string problem;   // what is damaged; empty: nothing
};

// Counts the rows, and the entries of each index, of which there is one for each row, and puts together rows
// in pieces. What the bytes mean in SQL is not asked: that is what CHECK TABLE does. Damage is no error.
// Errors: kUnavailable: the same may work later; kInterrupted (base/interrupt.h).
Status read_table(lsm::PastDatabase *state, const catalog::TableDef &table, StoredTable *out);

}  // namespace atoll::visitor
