// See field_map.h.
#include "handler/server.h"

#include "handler/server/field_map.h"

#include "codec/key_codec.h"
#include "handler/server/collation.h"
#include "handler/server/compat/names.h"
#include "handler/server/description.h"

namespace atoll::handler {
namespace {

// Whether the column is CHAR(n) or BINARY(n). Other types of fixed length (UUID, INET6) have the same type
// code.
bool is_char(const Field *field) {
  const enum_field_types type = field->real_type();
  return (type == MYSQL_TYPE_STRING || type == MYSQL_TYPE_VAR_STRING) &&
         dynamic_cast<const Field_string *>(field) != nullptr;
}

bool is_blob(const Field *field) { return (field->flags & BLOB_FLAG) != 0; }

bool is_varchar(const Field *field) { return field->real_type() == MYSQL_TYPE_VARCHAR; }

// The most bytes that a blob type can hold; 0: another type (JSON, GEOMETRY), whose values are more than the
// bytes of a text.
size_t blob_bytes_max(const Type_handler *type) {
  if (type == &type_handler_tiny_blob) return 0xFF;
  if (type == &type_handler_blob) return 0xFFFF;
  if (type == &type_handler_medium_blob) return 0xFFFFFF;
  if (type == &type_handler_long_blob) return 0xFFFFFFFF;
  return 0;
}

bool becomes_varchar(const Column_definition &changed) {
  return changed.real_field_type() == MYSQL_TYPE_VARCHAR;
}

// A CHAR becomes a VARCHAR or TEXT. In the SQL mode PAD_CHAR_TO_FULL_LENGTH, reading the old column gives
// spaces up to its full length, and a copy puts them into the new column.
bool copies_padding(const Field &field) {
  return (field.table->in_use->variables.sql_mode & MODE_PAD_CHAR_TO_FULL_LENGTH) != 0;
}

bool is_in_a_key(const Field &field) {
  for (uint i = 0; i < field.table->s->keys; i++) {
    const KEY &key = field.table->key_info[i];
    for (uint part = 0; part < key.user_defined_key_parts; part++)
      if (key.key_part[part].fieldnr == field.field_index + 1) return true;
  }
  return false;
}

// Whether the new character set and collation keep all that is stored. Another collation of the same
// character set does not change the column's bytes. But it may change the order of keys, the partition of a
// row, and the result of an expression on the column.
bool keeps_text(const Field &field, const Column_definition &changed) {
  if (field.charset() == changed.charset) return true;
  return my_charset_same(field.charset(), changed.charset) && !is_in_a_key(field) &&
         !(field.flags & FIELD_IN_PART_FUNC_FLAG) && field.table->vfield == nullptr;
}

// Whether both columns are text of a type that this file knows, and a value of one is the same in the other,
// except that it may be too long. BINARY(n) is no such text, because its values are padded.
bool is_same_text(const Field &before, const Field &after) {
  const auto is_text = [](const Field &field) {
    const Type_handler *type = field.type_handler();  // of JSON and of a compressed column: another one
    if (is_blob(&field)) return blob_bytes_max(type) != 0;
    return type == &type_handler_varchar ||
           (type == &type_handler_string && field.charset() != &my_charset_bin);
  };
  return is_text(before) && is_text(after) && before.charset() == after.charset();
}

bool has_labels(const Field &field) {
  return field.real_type() == MYSQL_TYPE_ENUM || field.real_type() == MYSQL_TYPE_SET;
}

// Whether an ENUM or SET keeps all its labels, letter by letter. The server considers labels equal that
// differ only in case.
bool keeps_labels(const Field &before, const Field &after) {
  const TYPELIB *labels = labels_of(before), *new_labels = labels_of(after);
  if (labels == nullptr || new_labels == nullptr || labels->count > new_labels->count) return false;
  for (uint i = 0; i < labels->count; i++) {
    const std::string_view label(labels->type_names[i], labels->type_lengths[i]);
    if (label != std::string_view(new_labels->type_names[i], new_labels->type_lengths[i])) return false;
  }
  return true;
}

}  // namespace

bool keeps_stored_bytes(const Field &field, const Column_definition &changed) {
  // The server stores the values of a compressed column in another form.
  if (field.compression_method() || changed.compression_method()) return false;
  if (!keeps_text(field, changed)) return false;
  const size_t blob_bytes = blob_bytes_max(changed.type_handler());
  if (is_varchar(&field)) {
    return becomes_varchar(changed) ? changed.length >= field.field_length
                                    : field.field_length <= blob_bytes && blob_bytes != 0;
  }
  if (is_blob(&field)) {
    const size_t before = blob_bytes_max(field.type_handler());
    return before != 0 && before <= blob_bytes;
  }
  if (!is_char(&field) || field.charset()->mbminlen != 1 || changed.length < field.field_length) return false;
  // A BINARY can become a longer BINARY, because reading a row pads the value with zeros. It cannot become a
  // VARBINARY: that would have to keep the zeros up to the old length, which the row does not store.
  return changed.type_handler() == &type_handler_string ||
         (becomes_varchar(changed) && field.charset() != &my_charset_bin && !copies_padding(field));
}

bool keeps_key_bytes(const Field &field, const Column_definition &changed) {
  if (!keeps_stored_bytes(field, changed) || !is_varchar(&field) || !becomes_varchar(changed)) return false;
  return field.charset() == &my_charset_bin || !codec::keys_depend_on_length(*collation_for(field.charset()));
}

ValueChange value_change(const Field &before, const Field &after) {
  if (is_same_text(before, after)) {
    const bool same =
        before.type_handler() == after.type_handler() && before.field_length == after.field_length;
    return same ? ValueChange::kNone : ValueChange::kLength;
  }
  constexpr uint32 kShown = UNSIGNED_FLAG | ZEROFILL_FLAG;
  if (before.type_handler() != after.type_handler() || before.charset() != after.charset() ||
      before.decimals() != after.decimals() || (before.flags & kShown) != (after.flags & kShown))
    return ValueChange::kValues;
  if (has_labels(before)) {
    if (!keeps_labels(before, after)) return ValueChange::kValues;
    const bool same = labels_of(before)->count == labels_of(after)->count;
    return same ? ValueChange::kNone : ValueChange::kLength;
  }
  if (before.field_length == after.field_length) return ValueChange::kNone;
  // The width of an integer is seen only with ZEROFILL.
  return is_integer(&before) && !(before.flags & ZEROFILL_FLAG) ? ValueChange::kLength : ValueChange::kValues;
}

bool keeps_partition_hash(const Field &before, const Field &after) {
  return (is_varchar(&before) && is_varchar(&after)) || is_integer(&before) || has_labels(before);
}

bool rounds_values(const Field &before, const Field &after) {
  const enum_field_types type = before.real_type();
  if (type != after.real_type() || (type != MYSQL_TYPE_FLOAT && type != MYSQL_TYPE_DOUBLE)) return false;
  return after.decimals() < before.decimals();  // FLOAT and DOUBLE without (M,D) have more than all others
}

}  // namespace atoll::handler
