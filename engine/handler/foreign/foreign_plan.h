// What a statement needs to check the constraints of a table: for each constraint of the table the index of
// its parent, and for each constraint that refers to the table the index of the child. It is made from the
// catalog, so neither table need be open.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "handler/ddl/definition.h"
#include "table/description/reference_key.h"

namespace atoll::handler {

// One side of a constraint, as seen from a row of this table. `key` makes the start of the other table's keys
// from that row.
struct ForeignLink {
  catalog::TablePtr child;  // the table that has the constraint
  catalog::ForeignKeyDef constraint;
  std::vector<uint16_t> columns = {};  // of this table: positions of its columns
  std::vector<uint16_t> others = {};   // of the other table
  int own_index = -1;    // the index of this table with `columns`; without one the primary one, or -1
  TableName other = {};  // the other table, in the form that SQL uses
  bool is_self = false;  // both tables are the same
  // A row may be its own parent: the index of the parent comes before the index of the child. InnoDB writes
  // one index after the other, so it finds the row's own entry only then.
  bool may_be_own_parent = false;
  // The rows of the other table, in records of the form own_record(), and its index. No layout: the other
  // table or its index does not exist. Then a row with a value in each column is refused.
  std::shared_ptr<const table::Layout> layout = {};
  size_t index = 0;
  int row_end = -1;  // ReferenceSearch::Target::row_end
  std::unique_ptr<const table::ReferenceKey> key = {};
};

// The constraints of one table. Immutable. In the order in which InnoDB checks them.
struct ForeignPlan {
  uint64_t generation = 0;            // of the catalog
  std::vector<ForeignLink> parents;   // constraints that this table has
  std::vector<ForeignLink> children;  // constraints that refer to this table
  // Children that an ALTER with a copy is replacing: a table under an internal name has no constraints. In
  // the form that SQL uses.
  std::vector<TableName> replaced;
  bool has_children() const { return !children.empty() || !replaced.empty(); }
  bool is_empty() const { return parents.empty() && !has_children(); }
};

// Makes the plan of a table for records of `layout`. Errors: kCorruption, kUnavailable.
Status make_foreign_plan(const std::shared_ptr<const table::Layout> &layout, uint64_t generation,
                         std::shared_ptr<const ForeignPlan> *out);

}  // namespace atoll::handler
