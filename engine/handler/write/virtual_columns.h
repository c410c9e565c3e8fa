// Computes the virtual columns of indexes. The server computes virtual columns only in some of its
// operations, but an index entry always needs their values, computed from its own row.
//
// A column is computed in record[0]. The text of a column is not in the record but in a buffer of its field.
// A field has two such buffers: `value` for record[0], and `read_value` for a row in another record.
#pragma once

#include "handler/server.h"

namespace atoll::handler {

// Whether a virtual column is part of the index.
bool indexes_virtual_column(const TABLE *table, size_t index);
// Whether a virtual TEXT or BLOB column is part of any index.
bool indexes_virtual_text(const TABLE *table);

// Computes the virtual columns of an index in record[0].
void compute_virtual_columns(TABLE *table, size_t index);
// Computes the virtual columns of the indexes [first, end) for a row that is not in record[0].
void compute_virtual_columns_of(TABLE *table, uchar *record, size_t first, size_t end);
// Computes the virtual text of both rows of a change again, because in some operations (REPLACE, system
// versioning) the server lets the next computation overwrite the text of the row in record[1]. `other`:
// nullptr if there is only one row. Requires: indexes_virtual_text().
void compute_virtual_text(TABLE *table, const uchar *record, const uchar *other);

}  // namespace atoll::handler
