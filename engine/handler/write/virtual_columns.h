// Virtual columns of indexes. The server computes them where it thinks of it; an entry needs them always, of
// the right row.
//
// A column is computed in record[0]. Text does not stand in the record: it is in a buffer of the field, which
// has two, the value for record[0] and the read_value for a row in another record.
#pragma once

#include "handler/server.h"

namespace atoll::handler {

// Is a virtual column part of the index?
bool indexes_virtual_column(const TABLE *table, size_t index);
// Is a virtual TEXT or BLOB column part of any index?
bool indexes_virtual_text(const TABLE *table);

// Computes the virtual columns of an index in record[0].
void compute_virtual_columns(TABLE *table, size_t index);
// Those of a row that is not in record[0], for the indexes from `first` on until before `end`.
void compute_virtual_columns_of(TABLE *table, uchar *record, size_t first, size_t end);
// The server leaves the text of a row in record[1] to the next computation in some of its ways (REPLACE,
// system versioning). So it is computed again for both rows of a change; `other`: nullptr if there is one
// only. Requires: indexes_virtual_text().
void compute_virtual_text(TABLE *table, const uchar *record, const uchar *other);

}  // namespace atoll::handler
