// See layout_builder.h.
#include "table/description/layout_builder.h"

#include <algorithm>
#include <string>

namespace atoll::table {
namespace {

using catalog::ColumnDescription;
using catalog::KeyDescription;
using catalog::KeyPartDescription;
using catalog::SqlType;
using catalog::TableDescription;
using codec::KeyKind;
using codec::KeyPart;

// How the key of a column that is not a string compares. Integers, FLOAT, DOUBLE, YEAR, ENUM, SET, DATE and
// the old temporal types without fractions are little-endian in the record; all other types compare as bytes.
KeyKind number_kind(const ColumnDescription &column) {
  if (catalog::is_integer(column.type)) return column.is_unsigned ? KeyKind::kUnsigned : KeyKind::kSigned;
  switch (column.type) {
    case SqlType::kYear:
    case SqlType::kEnum:
    case SqlType::kSet:
    case SqlType::kDate:
    case SqlType::kOldDate:
      return KeyKind::kUnsigned;
    case SqlType::kOldTimestamp:  // whole seconds are little-endian, fractions big-endian
      return column.decimals != 0 ? KeyKind::kBytes : KeyKind::kUnsigned;
    case SqlType::kOldDateTime:
    case SqlType::kOldTime:
      return column.decimals != 0 ? KeyKind::kBytes : KeyKind::kSigned;
    case SqlType::kFloat:
      return KeyKind::kFloat;
    case SqlType::kDouble:
      return KeyKind::kDouble;
    default:
      return KeyKind::kBytes;  // DECIMAL, TIMESTAMP, DATETIME, TIME, BIT, UUID, INET6
  }
}

// Makes the parts of keys of one table, whose columns are those of its description.
class Parts {
 public:
  Parts(const TableDescription &description, const catalog::RecordForm &form, const Collations &collations)
      : description_(description), form_(form), collations_(collations) {}

  Status of(const KeyDescription &key, std::vector<KeyPart> *out) const {
    for (const KeyPartDescription &part : key.parts) {
      const ColumnDescription &column = description_.columns[part.column];
      const codec::Column source = catalog::column_of(column, form_.places[part.column], 0);
      ATOLL_RETURN_IF_ERROR(key_part_of(column, part, source, collations_, &out->emplace_back()));
    }
    return Status::Ok();
  }

 private:
  const TableDescription &description_;
  const catalog::RecordForm &form_;
  const Collations &collations_;
};

const catalog::IndexDef *find_index(const catalog::TableDef &def, std::string_view name) {
  for (const catalog::IndexDef &index : def.indexes)
    if (!index.building && index.name == name) return &index;
  return nullptr;
}

// The columns whose value cannot be read from an entry of the index, because the entry holds only a prefix of
// it. `primary`: the description of the primary key, whose parts follow; nullptr: none follow.
std::vector<unsigned> cut_columns(const codec::KeyCodec &codec, const KeyDescription &key,
                                  const KeyDescription *primary) {
  std::vector<unsigned> cut, given, only_cut;
  for (size_t part = 0; part < codec.part_count(); part++) {
    const bool of_user = part < key.parts.size();
    const unsigned column = of_user ? key.parts[part].column : primary->parts[part - key.parts.size()].column;
    (codec.decodable(part) ? given : cut).push_back(column);
  }
  for (const unsigned column : cut)
    if (std::find(given.begin(), given.end(), column) == given.end()) only_cut.push_back(column);
  return only_cut;
}

Status build_indexes(const catalog::TableDef &def, const TableDescription &description, const Parts &parts,
                     Layout::Columns *columns) {
  const bool hidden = description.primary == catalog::kNoPrimaryKey;
  if (hidden != def.hidden_primary_key)
    return Status(Code::kInvalid, "it has another primary key than its definition");
  columns->primary = hidden ? -1 : description.primary;
  const KeyDescription *primary = hidden ? nullptr : &description.keys[description.primary];
  std::vector<KeyPart> primary_parts;
  if (primary != nullptr) ATOLL_RETURN_IF_ERROR(parts.of(*primary, &primary_parts));
  for (const KeyDescription &key : description.keys) {
    const catalog::IndexDef *stored = find_index(def, key.name);
    if (stored == nullptr) return Status(Code::kInvalid, "its index " + key.name + " is not in the catalog");
    IndexLayout index;
    index.name = key.name;
    index.ordinal = stored->ordinal;
    index.readable_from = stored->readable_from;
    index.is_long_hash = key.is_long_hash;
    index.unique = key.unique && !key.is_long_hash;
    index.user_parts = key.parts.size();
    ATOLL_RETURN_IF_ERROR(parts.of(key, &index.parts));
    std::vector<KeyPart> all = index.parts;
    if (&key != primary) all.insert(all.end(), primary_parts.begin(), primary_parts.end());
    index.codec = std::make_shared<const codec::KeyCodec>(index.ordinal, std::move(all), index.user_parts);
    index.cut_fields = cut_columns(*index.codec, key, primary);
    columns->indexes.push_back(std::move(index));
  }
  return Status::Ok();
}

}  // namespace

Status key_part_of(const ColumnDescription &column, const KeyPartDescription &part, codec::Column source,
                   const Collations &collations, KeyPart *out) {
  *out = {};
  out->source = std::move(source);
  out->descending = part.descending;
  out->never_null = !column.nullable;
  if (!catalog::is_text(column.type)) {
    out->kind = number_kind(column);
    out->is_integer = catalog::is_integer(column.type);
    return Status::Ok();
  }
  const bool is_char = column.type == SqlType::kChar;
  if (column.charset.collation == "binary") {
    out->kind = is_char ? KeyKind::kBytes : KeyKind::kBinary;
    out->prefix_length = part.prefix_bytes;
    return Status::Ok();
  }
  out->kind = KeyKind::kText;
  out->collation = collations.find(column.charset);
  if (out->collation == nullptr)
    return Status(Code::kInvalid, "the column " + column.name + " has the collation " +
                                      column.charset.collation + ", which this server does not have");
  out->filled_with_spaces = is_char;
  const uint32_t bytes = part.prefix_bytes != 0 ? part.prefix_bytes : column.length;
  out->characters_max = bytes / column.charset.bytes_max;
  if (part.prefix_bytes != 0) out->prefix_characters = out->characters_max;
  return Status::Ok();
}

Status build_layout(catalog::TablePtr def, const TableDescription &description,
                    const catalog::RecordForm &form, const Collations &collations, lsm::Family *family,
                    std::shared_ptr<const Layout> *out) {
  ATOLL_RETURN_IF_ERROR(catalog::check(description));
  Layout::Columns columns;
  ATOLL_RETURN_IF_ERROR(catalog::row_codec_of(*def, description, form, &columns.row, &columns.stored));
  ATOLL_RETURN_IF_ERROR(build_indexes(*def, description, {description, form, collations}, &columns));
  *out = std::make_shared<const Layout>(std::move(def), family, std::move(columns));
  return Status::Ok();
}

}  // namespace atoll::table
