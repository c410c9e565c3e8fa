// Describes an open TABLE in the catalog's words (catalog/description/table_description.h), and says where
// the server's records hold each column. With field_map.h, no other file knows how each column type is
// stored.
#pragma once

#include "catalog/description/record_form.h"
#include "codec/row_codec.h"
#include "table/description/layout_builder.h"

class Field;
struct TABLE;
struct TABLE_SHARE;

namespace atoll::handler {

// True for the types that are integers in SQL. Other types that are stored as integers (DATE, ENUM) are not.
bool is_integer(const Field *field);

catalog::ColumnDescription describe(const Field *field);

// `table`: has the indexes as an engine sees them; a UNIQUE key of unlimited length is an index on its hash
// column.
catalog::TableDescription describe(const TABLE *table);

// How `field` is stored in the records of `share`. `id`: the column's id in the catalog.
codec::Column column_of(const TABLE_SHARE *share, const Field *field, uint32_t id);

// The form of the records of `share`.
catalog::RecordForm record_form_of(const TABLE_SHARE *share);

// The collations of this server. Thread-safe.
const table::Collations &server_collations();

}  // namespace atoll::handler
