// What an ALTER of a column changes: stored bytes, keys and values. With description.h, no other file knows
// how each column type is stored in a record.
#pragma once

#include "base/namespace.h"

class Column_definition;
class Field;

namespace atoll::handler {

// For ALTER: whether the stored bytes of `field` mean the same values in the new type, so that no row has to
// be rewritten. True for text that becomes longer, in the same character set: VARCHAR, CHAR, TEXT, and from
// CHAR to VARCHAR or from VARCHAR to TEXT. Also true for another collation, if nothing that is stored depends
// on it. The server does not ask about types that it considers equal.
bool keeps_stored_bytes(const Field &field, const Column_definition &changed);

// What an ALTER that keeps the stored bytes of a column changes for an expression that names the column.
enum class ValueChange {
  kNone,    // nothing; only the name, DEFAULT, NULL or comment of the column changes
  kLength,  // the values are the same, and there is room for longer ones
  kValues,  // values are another text or number (padding, labels, leading zeros), or compare in another way
};
ValueChange value_change(const Field &before, const Field &after);

// For a change that is ValueChange::kLength: whether PARTITION BY puts each value where it was. KEY hashes a
// CHAR with its padding, if the collation is NO PAD.
bool keeps_partition_hash(const Field &before, const Field &after);

// Whether a copy to the new type rounds FLOAT or DOUBLE values. The server considers the types equal.
bool rounds_values(const Field &before, const Field &after);

// As keeps_stored_bytes(), for the keys of `field` in an index on the whole column.
bool keeps_key_bytes(const Field &field, const Column_definition &changed);

}  // namespace atoll::handler
