// Describes the server's fields to the codec: the one place that knows how each column type stands in a
// record and how it compares.
#pragma once

#include "codec/key_codec.h"
#include "codec/row_codec.h"

class Column_definition;
class Field;
struct TABLE_SHARE;
typedef struct st_key_part_info KEY_PART_INFO;

namespace atoll::handler {

// The types that are numbers in SQL too, not counts of days or members of a list.
bool is_integer(const Field *field);

// How `field` stands in the records of `share`. `id` is the catalog's column id.
codec::Column column_of(const TABLE_SHARE *share, const Field *field, uint32_t id);

// How key part `part` of an index on `share` compares.
codec::KeyPart key_part_of(const TABLE_SHARE *share, const KEY_PART_INFO &part);

// ALTER: do the values that rows hold of `field` stand for the same values of the new type, byte by byte?
// True for text that becomes longer, in the same character set: VARCHAR, CHAR, TEXT, and from CHAR to VARCHAR
// or from VARCHAR to TEXT; also in another collation, when nothing that is stored depends on it. Not asked
// about types that the server calls equal.
bool keeps_stored_bytes(const Field &field, const Column_definition &changed);

// ... and the same for its values in an index on the whole column.
bool keeps_key_bytes(const Field &field, const Column_definition &changed);

}  // namespace atoll::handler
