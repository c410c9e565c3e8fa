// The tables of two states of a database, each beside what it was or became.
#pragma once

#include <vector>

#include "catalog/catalog.h"

namespace atoll::visitor {

// A table in both states; nullptr: one of them lacks it.
struct TablePair {
  catalog::TablePtr before;
  catalog::TablePtr after;
};

enum class Change : uint8_t {
  kNone,     // the same definition
  kAdded,    // only the second state has the table
  kDropped,  // only the first state has it
  kRebuilt,  // another table has its name: ALTER copied the rows, or the table was dropped and made again
  kRenamed,
  kAltered,  // columns, indexes or options
};

// Pairs tables that are the same one under any name, then tables of the same name. In the order of the names
// in the second state; dropped tables are last.
std::vector<TablePair> pair_tables(const std::vector<catalog::TablePtr> &before,
                                   const std::vector<catalog::TablePtr> &after);

// What happened to the table itself, not to its rows.
Change change_of(const TablePair &pair);
// As `atollctl diff` calls it; "" for kNone.
const char *name_of(Change change);

}  // namespace atoll::visitor
