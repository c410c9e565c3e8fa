// A constraint FOREIGN KEY, as the definition of its child table stores it. The child is the table that has
// the constraint, the parent is the table to which it refers.
//
// The constraint knows its parent only by names. So the parent may be missing (foreign_key_checks=0), and may
// be replaced by a new table of that name (ALTER with ALGORITHM=COPY), without any change of the child.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace atoll::catalog {

// What happens to the rows of the child when the row of the parent goes or changes its key. kNoAction and
// kSetDefault do what kRestrict does, as in InnoDB. The numbers are stored.
enum class ReferenceAction : uint8_t {
  kRestrict = 0,
  kCascade = 1,
  kSetNull = 2,
  kNoAction = 3,
  kSetDefault = 4,
};

struct ForeignKeyDef {
  std::string name;                           // the constraint's name in SQL
  std::vector<std::string> columns;           // of the child, by name
  std::string parent_database, parent_table;  // as TableDef::database and TableDef::name
  std::vector<std::string> parent_columns;    // as many as `columns`
  ReferenceAction on_delete = ReferenceAction::kRestrict;
  ReferenceAction on_update = ReferenceAction::kRestrict;
  bool operator==(const ForeignKeyDef &) const = default;
};

// What an ALTER changes about the constraints of its table, and of tables that refer to it.
struct ForeignKeyChanges {
  std::vector<std::string> dropped;  // constraints of the table, by name
  std::vector<ForeignKeyDef> added;
  std::map<std::string, std::string> renamed_columns;  // of the table: from the old name to the new one
};

// What else changes when a table is renamed. Requires: all empty, if the new name is internal.
struct RenamedReferences {
  // The database and the name by which its children know the table; empty: none does, or their references
  // stay as they are.
  std::string database, table;
  // How the generated names of its constraints begin, before and after, for example "child_ibfk_".
  std::string names_from, names_to;
};

// Whether two names of constraints or columns are the same. They are compared as the server compares names of
// columns, but only letters of ASCII are the same in upper and lower case.
bool same_name(std::string_view a, std::string_view b);

// Puts the constraints into the order of SHOW CREATE TABLE: that of their names' bytes.
void sort_by_name(std::vector<ForeignKeyDef> *foreign_keys);

// Encodes the constraints of a table: table FMT-C7 of docs/internals/formats-catalog.md.
std::string encode(const std::vector<ForeignKeyDef> &foreign_keys);
// Errors: kCorruption: bytes that encode() does not write for at least one possible constraint.
Status decode(std::string_view fields, std::vector<ForeignKeyDef> *out);

}  // namespace atoll::catalog
