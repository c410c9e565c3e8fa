// See field_map.h.
#include "handler/server.h"

#include "handler/server/field_map.h"

#include "handler/server/collation.h"

namespace atoll::handler {
namespace {

using codec::Column;
using codec::ColumnKind;
using codec::KeyKind;
using codec::KeyPart;

// Whether the column is CHAR(n) or BINARY(n). Other types of fixed length (UUID, INET6) have the same type
// code.
bool is_char(const Field *field) {
  const enum_field_types type = field->real_type();
  return (type == MYSQL_TYPE_STRING || type == MYSQL_TYPE_VAR_STRING) &&
         dynamic_cast<const Field_string *>(field) != nullptr;
}

bool is_blob(const Field *field) { return (field->flags & BLOB_FLAG) != 0; }

bool is_varchar(const Field *field) { return field->real_type() == MYSQL_TYPE_VARCHAR; }

// How the key of a column that is not text compares. Integers, FLOAT, DOUBLE, YEAR, ENUM, SET, DATE and the
// old temporal types without fractions are little-endian in the record; all other types compare as bytes.
KeyKind number_kind(const Field *field) {
  if (is_integer(field)) return (field->flags & UNSIGNED_FLAG) ? KeyKind::kUnsigned : KeyKind::kSigned;
  switch (field->real_type()) {
    case MYSQL_TYPE_YEAR:
    case MYSQL_TYPE_ENUM:
    case MYSQL_TYPE_SET:
    case MYSQL_TYPE_NEWDATE:
    case MYSQL_TYPE_DATE:
      return KeyKind::kUnsigned;
    case MYSQL_TYPE_TIMESTAMP:  // before MySQL 5.6: whole seconds little-endian, fractions big-endian
      return field->decimals() ? KeyKind::kBytes : KeyKind::kUnsigned;
    case MYSQL_TYPE_DATETIME:
    case MYSQL_TYPE_TIME:
      return field->decimals() ? KeyKind::kBytes : KeyKind::kSigned;
    case MYSQL_TYPE_FLOAT:
      return KeyKind::kFloat;
    case MYSQL_TYPE_DOUBLE:
      return KeyKind::kDouble;
    default:
      return KeyKind::kBytes;  // NEWDECIMAL, TIMESTAMP2, DATETIME2, TIME2, BIT, UUID, INET6
  }
}

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
  return changed.real_field_type() == MYSQL_TYPE_VARCHAR && !changed.compression_method();
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

}  // namespace

bool is_integer(const Field *field) {
  switch (field->real_type()) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
      return true;
    default:
      return false;
  }
}

bool keeps_stored_bytes(const Field &field, const Column_definition &changed) {
  if (!keeps_text(field, changed) || field.compression_method()) return false;
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
         (becomes_varchar(changed) && field.charset() != &my_charset_bin);
}

bool keeps_key_bytes(const Field &field, const Column_definition &changed) {
  if (!keeps_stored_bytes(field, changed) || !is_varchar(&field) || !becomes_varchar(changed)) return false;
  return field.charset() == &my_charset_bin || !codec::keys_depend_on_length(*collation_for(field.charset()));
}

Column column_of(const TABLE_SHARE *share, const Field *field, uint32_t id) {
  Column column;
  column.id = id;
  column.record_offset = static_cast<uint32_t>(field->ptr - share->default_values);
  column.length = field->pack_length();
  if (is_blob(field)) {
    column.kind = ColumnKind::kBlob;
    column.length_bytes = static_cast<uint8_t>(static_cast<const Field_blob *>(field)->pack_length_no_ptr());
    column.length = UINT32_MAX;
  } else if (is_varchar(field)) {
    column.kind = ColumnKind::kVarchar;
    column.length_bytes = static_cast<uint8_t>(static_cast<const Field_varstring *>(field)->length_bytes);
    column.length = field->field_length;
  } else if (is_char(field) && field->charset()->mbminlen == 1) {
    column.kind = ColumnKind::kChar;
    column.pad_byte = field->charset() == &my_charset_bin ? 0 : ' ';
  }
  if (field->null_ptr != nullptr) {
    column.null_offset = static_cast<int32_t>(field->null_ptr - share->default_values);
    column.null_mask = field->null_bit;
    // While a field is NULL, the server's record holds the default value in the field's bytes, or what
    // Field::reset() has put there. The codec must put the same bytes there.
    const uchar *default_bytes = share->default_values + column.record_offset;
    const bool default_is_null = (share->default_values[column.null_offset] & field->null_bit) != 0;
    if (column.kind == ColumnKind::kFixed || (column.kind != ColumnKind::kBlob && !default_is_null))
      column.null_bytes.assign(reinterpret_cast<const char *>(default_bytes), field->pack_length());
  }
  return column;
}

KeyPart key_part_of(const TABLE_SHARE *share, const KEY_PART_INFO &part) {
  const Field *field = share->field[part.fieldnr - 1];
  KeyPart result;
  result.source = column_of(share, field, 0);
  result.descending = (part.key_part_flag & HA_REVERSE_SORT) != 0;
  result.never_null = field->null_ptr == nullptr;

  const bool text_like = is_blob(field) || is_varchar(field) || is_char(field);
  if (!text_like) {
    result.kind = number_kind(field);
    result.is_integer = is_integer(field);
    return result;
  }
  const CHARSET_INFO *cs = field->charset();
  const bool whole = !is_blob(field) && field->key_length() == part.length;
  if (cs == &my_charset_bin) {
    result.kind = is_char(field) ? KeyKind::kBytes : KeyKind::kBinary;
    if (!whole) result.prefix_length = part.length;
    return result;
  }
  result.kind = KeyKind::kText;
  result.collation = collation_for(cs);
  result.filled_with_spaces = is_char(field);
  result.characters_max = part.length / cs->mbmaxlen;
  if (!whole) result.prefix_characters = result.characters_max;
  return result;
}

}  // namespace atoll::handler
