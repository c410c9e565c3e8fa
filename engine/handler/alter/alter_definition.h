// The definition that a table will have after an ALTER that needs no copy by the server: which old column
// each stored column of the new definition comes from, which value the existing rows have for a column that
// they lack, and which indexes are added and dropped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"
#include "handler/layout.h"

class Alter_inplace_info;
class Field;
struct TABLE;

namespace atoll::handler {

// One for each schema version whose rows may still be there. Each costs every open table a layout (40 bytes
// per column), and nothing ever rewrites the rows; at the limit ALTER takes the way of a copy, which forgets
// all versions but one.
inline constexpr size_t kSchemaVersionsMax = 250;

struct AlteredDefinition {
  catalog::TableDef def;
  std::vector<std::string> added_indexes;
  // The primary key changes: all indexes are added, and this is the ordinal of the claims (online_rekey.h).
  bool rekeyed = false;
  uint16_t claims_ordinal = 0;
  bool moves = false;  // rewrites_rows()
};

// `stored`: what the catalog has, which `before` was made from. `altered` holds in record[0] the defaults
// that the statement has found. Errors: kInvalid (the two tables do not belong together).
Status alter_definition(const catalog::TableDef &stored, const Layout &before, const TABLE *altered,
                        const Alter_inplace_info *info, AlteredDefinition *out);

// Does the ALTER write all rows anew, under the same keys and in a family of their own? FORCE and a change of
// the compression do. An ALTER that moves outgrown tables (outgrown.h) does so only for tables and partitions
// that have outgrown the shared family. `stored`: as in alter_definition().
bool rewrites_rows(const catalog::TableDef &stored, const TABLE *altered, const Alter_inplace_info *info);

// Gives the table the indexes of `table`, the primary one first, under ordinals that no other index had.
void define_indexes(const TABLE *table, catalog::TableDef *def);

// Does the ALTER give the table another primary key, or take it away? `name_before`: the name of the present
// one; empty if there is none.
bool changes_primary_key(std::string_view name_before, const TABLE *altered, const Alter_inplace_info *info);

// For each field of the altered table, the field of the old table that it comes from; nullptr for a new one.
std::vector<const Field *> fields_before(const TABLE *altered, const Alter_inplace_info *info);

}  // namespace atoll::handler
