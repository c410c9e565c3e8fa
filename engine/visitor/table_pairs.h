// Pairs the tables of one state of a database with those of another state.
#pragma once

#include <vector>

#include "catalog/catalog.h"

namespace atoll::visitor {

// The definitions of a table in both states; nullptr: that state lacks the table.
struct TablePair {
  catalog::TablePtr before;
  catalog::TablePtr after;
};

// How the definition of a table differs between two states; change_of() chooses the value.
enum class Change : uint8_t {
  kNone,     // the definition is the same in both states
  kAdded,    // only the second state has the table
  kDropped,  // only the first state has it
  kRebuilt,  // another table has its name: ALTER copied the rows, or the table was dropped and made again
  kRenamed,
  kAltered,  // the same table, under the same name, has other columns, indexes or options in the second state
};

// Pairs tables that have the same id and creation time, under whatever name, and then the tables that are
// left by their names. The pairs are in the order of the names in the second state; dropped tables come last.
std::vector<TablePair> pair_tables(const std::vector<catalog::TablePtr> &before,
                                   const std::vector<catalog::TablePtr> &after);

// How the table's definition has changed. Changes of its rows do not count.
Change change_of(const TablePair &pair);
// The word by which `atollctl diff` calls the change; "" for kNone.
const char *name_of(Change change);

}  // namespace atoll::visitor
