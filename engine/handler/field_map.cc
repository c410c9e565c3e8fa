// See field_map.h.
#include "handler/server.h"

#include "handler/field_map.h"

#include "handler/collation.h"

namespace atoll::handler {
namespace {

using codec::Column;
using codec::ColumnKind;
using codec::KeyKind;
using codec::KeyPart;

// CHAR(n) and BINARY(n), as opposed to other types of fixed length that also call themselves strings
// (UUID, INET6).
bool is_char(const Field *field) {
  const enum_field_types type = field->real_type();
  return (type == MYSQL_TYPE_STRING || type == MYSQL_TYPE_VAR_STRING) &&
         dynamic_cast<const Field_string *>(field) != nullptr;
}

bool is_blob(const Field *field) { return (field->flags & BLOB_FLAG) != 0; }

bool is_varchar(const Field *field) { return field->real_type() == MYSQL_TYPE_VARCHAR; }

// Numbers and old temporal types that stand little-endian in the record.
KeyKind number_kind(const Field *field) {
  switch (field->real_type()) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG:
      return (field->flags & UNSIGNED_FLAG) ? KeyKind::kUnsigned : KeyKind::kSigned;
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

}  // namespace

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
  result.characters_max = part.length / cs->mbmaxlen;
  if (!whole) result.prefix_characters = result.characters_max;
  return result;
}

}  // namespace atoll::handler
