// Makes the definition that a table will have after an ALTER that needs no copy by the server. It says which
// old column each stored column of the new definition comes from, which value the existing rows have for a
// column that they lack, and which indexes are added and dropped.
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
typedef struct st_key KEY;

namespace atoll::handler {

// The maximum number of schema versions of a table. Rows of every version may still exist, because no task
// rewrites old rows. Each version costs every open table a layout (40 bytes per column). At the limit an
// ALTER is done as a copy, after which the table has only one version.
inline constexpr size_t kSchemaVersionsMax = 250;

struct AlteredDefinition {
  catalog::TableDef def;
  std::vector<std::string> added_indexes;  // the names of the new indexes
  // Whether the primary key changes. If so, all indexes are built, and the claims, which connect new keys
  // with old ones during the build (online_claims.h), are stored under the index ordinal `claims_ordinal`.
  bool rekeyed = false;
  uint16_t claims_ordinal = 0;
  bool moves = false;  // all rows are rewritten into a family of the table's own, see rewrites_rows()
};

// Makes the definition that the table has after the ALTER. `stored`: the definition in the catalog. `before`:
// the present layout. `altered`: its record[0] holds the default values for new columns. Errors: kInvalid
// (`before` and `altered` do not belong together).
Status alter_definition(const catalog::TableDef &stored, const Layout &before, const TABLE *altered,
                        const Alter_inplace_info *info, AlteredDefinition *out);

// Whether the ALTER rewrites all rows, under the same keys, into a column family of the table's own. FORCE
// and a change of the compression do so. An ALTER that moves outgrown tables (outgrown.h) does so only for
// tables and partitions that have outgrown the shared family. `stored`: as in alter_definition().
bool rewrites_rows(const catalog::TableDef &stored, const TABLE *altered, const Alter_inplace_info *info);

// Adds the indexes of `table` to `def`, the primary key first. Each gets an ordinal that no index of the
// table has had.
void define_indexes(const TABLE *table, catalog::TableDef *def);

// Whether the ALTER gives the table another primary key, or removes it. `name_before`: the name of the
// present primary key; empty if there is none.
bool changes_primary_key(std::string_view name_before, const TABLE *altered, const Alter_inplace_info *info);

// Whether both keys have the same name. The server does not distinguish upper and lower case here.
bool same_name(const KEY &a, const KEY &b);

// For each field of the altered table, the field of the old table that it comes from; nullptr for a new one.
std::vector<const Field *> fields_before(const TABLE *altered, const Alter_inplace_info *info);

}  // namespace atoll::handler
