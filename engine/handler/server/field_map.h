// Describes the server's fields to the codec. No other file knows how each column type is stored in a record
// and how it compares.
#pragma once

#include "codec/key_codec.h"
#include "codec/row_codec.h"

class Column_definition;
class Field;
struct TABLE_SHARE;
typedef struct st_key_part_info KEY_PART_INFO;

namespace atoll::handler {

// True for the types that are integers in SQL. Other types that are stored as integers (DATE, ENUM) are not.
bool is_integer(const Field *field);

// How `field` is stored in the records of `share`. `id`: the column's id in the catalog.
codec::Column column_of(const TABLE_SHARE *share, const Field *field, uint32_t id);

// How key part `part` of an index on `share` compares.
codec::KeyPart key_part_of(const TABLE_SHARE *share, const KEY_PART_INFO &part);

// For ALTER: whether the stored bytes of `field` mean the same values in the new type, so that no row has to
// be rewritten. True for text that becomes longer, in the same character set: VARCHAR, CHAR, TEXT, and from
// CHAR to VARCHAR or from VARCHAR to TEXT. Also true for another collation, if nothing that is stored depends
// on it. The server does not ask about types that it considers equal.
bool keeps_stored_bytes(const Field &field, const Column_definition &changed);

// As keeps_stored_bytes(), for the keys of `field` in an index on the whole column.
bool keeps_key_bytes(const Field &field, const Column_definition &changed);

}  // namespace atoll::handler
