// See description.h.
#include "handler/server.h"

#include "handler/server/description.h"

#include <my_sys.h>

#include "handler/server/collation.h"

namespace atoll::handler {
namespace {

using catalog::ColumnDescription;
using catalog::SqlType;

bool is_blob(const Field *field) { return (field->flags & BLOB_FLAG) != 0; }

SqlType blob_type(const Field *field) {
  if (field->type() == MYSQL_TYPE_GEOMETRY) return SqlType::kGeometry;
  switch (static_cast<const Field_blob *>(field)->pack_length_no_ptr()) {
    case 1:
      return SqlType::kTinyBlob;
    case 2:
      return SqlType::kBlob;
    case 3:
      return SqlType::kMediumBlob;
    default:
      return SqlType::kLongBlob;
  }
}

SqlType number_type(const Field *field) {
  switch (field->real_type()) {
    case MYSQL_TYPE_TINY:
      return SqlType::kTinyInt;
    case MYSQL_TYPE_SHORT:
      return SqlType::kSmallInt;
    case MYSQL_TYPE_INT24:
      return SqlType::kMediumInt;
    case MYSQL_TYPE_LONG:
      return SqlType::kInt;
    case MYSQL_TYPE_LONGLONG:
      return SqlType::kBigInt;
    case MYSQL_TYPE_FLOAT:
      return SqlType::kFloat;
    case MYSQL_TYPE_DOUBLE:
      return SqlType::kDouble;
    case MYSQL_TYPE_NEWDECIMAL:
      return SqlType::kDecimal;
    case MYSQL_TYPE_BIT:
      return SqlType::kBit;
    default:
      return SqlType::kOther;  // UUID, INET6, and DECIMAL as servers before MySQL 5.0 stored it
  }
}

SqlType type_of(const Field *field) {
  if (is_blob(field)) return blob_type(field);
  switch (field->real_type()) {
    case MYSQL_TYPE_VARCHAR:
      return SqlType::kVarchar;
    case MYSQL_TYPE_STRING:
    case MYSQL_TYPE_VAR_STRING:
      // Other types of fixed length (UUID, INET6) have the same type code.
      return dynamic_cast<const Field_string *>(field) != nullptr ? SqlType::kChar : SqlType::kOther;
    case MYSQL_TYPE_ENUM:
      return SqlType::kEnum;
    case MYSQL_TYPE_SET:
      return SqlType::kSet;
    case MYSQL_TYPE_YEAR:
      return SqlType::kYear;
    case MYSQL_TYPE_NEWDATE:
      return SqlType::kDate;
    case MYSQL_TYPE_TIME2:
      return SqlType::kTime;
    case MYSQL_TYPE_DATETIME2:
      return SqlType::kDateTime;
    case MYSQL_TYPE_TIMESTAMP2:
      return SqlType::kTimestamp;
    case MYSQL_TYPE_DATE:
      return SqlType::kOldDate;
    case MYSQL_TYPE_TIME:
      return SqlType::kOldTime;
    case MYSQL_TYPE_DATETIME:
      return SqlType::kOldDateTime;
    case MYSQL_TYPE_TIMESTAMP:
      return SqlType::kOldTimestamp;
    default:
      return number_type(field);
  }
}

bool has_charset(SqlType type) {
  return catalog::is_text(type) || type == SqlType::kEnum || type == SqlType::kSet;
}

catalog::Charset charset_of(const CHARSET_INFO *cs) {
  catalog::Charset charset;
  charset.name.assign(cs->cs_name.str, cs->cs_name.length);
  charset.collation.assign(cs->coll_name.str, cs->coll_name.length);
  charset.id = cs->number;
  charset.bytes_min = static_cast<uint8_t>(cs->mbminlen);
  charset.bytes_max = static_cast<uint8_t>(cs->mbmaxlen);
  return charset;
}

catalog::KeyDescription describe(const TABLE_SHARE *share, const KEY &key) {
  catalog::KeyDescription result;
  result.name.assign(key.name.str, key.name.length);
  result.unique = (key.flags & HA_NOSAME) != 0;
  result.is_long_hash = key.algorithm == HA_KEY_ALG_LONG_HASH;
  for (uint i = 0; i < key.user_defined_key_parts; i++) {
    const KEY_PART_INFO &part = key.key_part[i];
    const Field *field = share->field[part.fieldnr - 1];
    catalog::KeyPartDescription described;
    described.column = static_cast<uint16_t>(part.fieldnr - 1);
    described.descending = (part.key_part_flag & HA_REVERSE_SORT) != 0;
    const bool whole = !is_blob(field) && field->key_length() == part.length;
    if (catalog::is_text(type_of(field)) && !whole) described.prefix_bytes = part.length;
    result.parts.push_back(described);
  }
  return result;
}

catalog::ColumnPlace place_of(const TABLE_SHARE *share, const Field *field, codec::ColumnKind kind) {
  catalog::ColumnPlace place;
  place.record_offset = static_cast<uint32_t>(field->ptr - share->default_values);
  if (field->null_ptr == nullptr) return place;
  place.null_offset = static_cast<int32_t>(field->null_ptr - share->default_values);
  place.null_mask = field->null_bit;
  // While a field is NULL, the server's record holds the default value in the field's bytes, or what
  // Field::reset() has put there. The codec must put the same bytes there.
  const uchar *default_bytes = share->default_values + place.record_offset;
  const bool default_is_null = (share->default_values[place.null_offset] & field->null_bit) != 0;
  const bool is_fixed = kind == codec::ColumnKind::kFixed;
  if (is_fixed || (kind != codec::ColumnKind::kBlob && !default_is_null))
    place.null_bytes.assign(reinterpret_cast<const char *>(default_bytes), field->pack_length());
  return place;
}

class ServerCollations final : public table::Collations {
 public:
  const codec::Collation *find(const catalog::Charset &charset) const override {
    const CHARSET_INFO *cs = get_charset(charset.id, MYF(0));
    if (cs == nullptr || std::string_view(cs->coll_name.str, cs->coll_name.length) != charset.collation)
      return nullptr;
    return collation_for(cs);
  }
};

}  // namespace

bool is_integer(const Field *field) { return catalog::is_integer(type_of(field)); }

ColumnDescription describe(const Field *field) {
  ColumnDescription column;
  column.name.assign(field->field_name.str, field->field_name.length);
  column.type = type_of(field);
  if (column.type == SqlType::kOther || column.type == SqlType::kGeometry) {
    const Name name = field->type_handler()->name();
    column.type_name.assign(name.ptr(), name.length());
  }
  column.length = field->field_length;
  column.decimals = static_cast<uint8_t>(field->decimals());
  column.record_bytes = field->pack_length();
  if (is_blob(field))
    column.length_bytes = static_cast<uint8_t>(static_cast<const Field_blob *>(field)->pack_length_no_ptr());
  if (column.type == SqlType::kVarchar)
    column.length_bytes = static_cast<uint8_t>(static_cast<const Field_varstring *>(field)->length_bytes);
  column.nullable = field->null_ptr != nullptr;
  column.is_unsigned = (field->flags & UNSIGNED_FLAG) != 0;
  column.zerofill = (field->flags & ZEROFILL_FLAG) != 0;
  column.compressed = field->compression_method() != nullptr;
  if (!field->stored_in_db())
    column.generated = catalog::Generated::kVirtual;
  else if (field->vcol_info != nullptr)
    column.generated = catalog::Generated::kStored;
  column.visibility = static_cast<catalog::Visibility>(field->invisible);
  if (has_charset(column.type)) column.charset = charset_of(field->charset());
  return column;
}

catalog::TableDescription describe(const TABLE *table) {
  const TABLE_SHARE *share = table->s;
  catalog::TableDescription description;
  description.server_version = MYSQL_VERSION_ID;
  for (uint i = 0; i < share->fields; i++) description.columns.push_back(describe(share->field[i]));
  for (uint i = 0; i < share->keys; i++) description.keys.push_back(describe(share, table->key_info[i]));
  if (share->primary_key != MAX_KEY) description.primary = static_cast<uint16_t>(share->primary_key);
  return description;
}

codec::Column column_of(const TABLE_SHARE *share, const Field *field, uint32_t id) {
  const ColumnDescription column = describe(field);
  return catalog::column_of(column, place_of(share, field, catalog::kind_of(column)), id);
}

catalog::RecordForm record_form_of(const TABLE_SHARE *share) {
  catalog::RecordForm form;
  form.record_bytes = share->reclength;
  for (uint i = 0; i < share->fields; i++)
    form.places.push_back(place_of(share, share->field[i], catalog::kind_of(describe(share->field[i]))));
  return form;
}

const table::Collations &server_collations() {
  static const ServerCollations all;
  return all;
}

}  // namespace atoll::handler
