// Whether the tables of a constraint FOREIGN KEY have what it needs: the columns, an index on each side whose
// first parts are these columns in their order, and columns whose values can be compared.
//
// InnoDB says of a constraint that does not fit only what is wrong with the last index that it looked at, and
// it looks at the columns of the child first. Users and tools know its messages, so the search here goes the
// same way. It differs in two points. InnoDB compares columns of more types, for example DECIMALs of
// different lengths (why_not_comparable() in reference_key.h). And it also takes an index whose entries end
// with the missing columns because they are the primary key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/catalog.h"

namespace atoll::table {

enum class Misfit : uint8_t {
  kNone,
  kNoIndex,      // no index has the columns as its first parts
  kPrefixIndex,  // an index that the search met holds only prefixes of values
  kTypes,        // values of two columns cannot be compared
};

struct FoundIndex {
  int index = -1;  // its number in TableDescription::keys; -1: there is none, see `misfit`
  Misfit misfit = Misfit::kNoIndex;
  size_t column = 0;  // kTypes: which column of the constraint
};

// The numbers of the keys in the order in which InnoDB searches and writes its indexes: the primary key is
// the first.
std::vector<size_t> search_order(const catalog::TableDescription &table);

// Finds the index of `table` whose first parts are `columns`. `others`: the columns of the other table with
// which they are compared; empty: they are not compared.
FoundIndex find_index(const catalog::TableDescription &table, const std::vector<std::string> &columns,
                      const std::vector<const catalog::ColumnDescription *> &others);

// The columns of those names; nullptr: there is no such column.
std::vector<const catalog::ColumnDescription *> columns_of(const catalog::TableDescription &table,
                                                           const std::vector<std::string> &names);

// Whether the constraint fits a parent, in both directions of comparison. Requires: the child has the columns
// and their index.
FoundIndex find_parent_index(const catalog::TableDescription &child, const catalog::ForeignKeyDef &key,
                             const catalog::TableDescription &parent);

// The index of the table that the constraint needs; -1: none fits. As find_index() without a comparison.
int needed_index(const catalog::TableDescription &table, const std::vector<std::string> &columns);

}  // namespace atoll::table
