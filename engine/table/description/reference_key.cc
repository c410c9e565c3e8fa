// See reference_key.h.
#include "table/description/reference_key.h"

#include <optional>

namespace atoll::table {
namespace {

using catalog::ColumnDescription;
using catalog::SqlType;
using catalog::TableDescription;

bool is_short_text(const ColumnDescription &column) {
  const bool is_string = column.type == SqlType::kChar || column.type == SqlType::kVarchar;
  return is_string && column.charset.collation != "binary";
}

bool has_sign(const ColumnDescription &column) {
  return catalog::is_integer(column.type) || column.type == SqlType::kDecimal;
}

// The column in the records of `layout`. A virtual column is not in the rows, so it is looked for in the
// indexes.
std::optional<codec::Column> find_source(const Layout &layout, uint16_t column) {
  if (const int stored = layout.stored_column(column); stored >= 0)
    return layout.row().column(static_cast<size_t>(stored));
  const TableDescription &description = layout.def().description;
  for (size_t key = 0; key < description.keys.size(); key++)
    for (size_t part = 0; part < description.keys[key].parts.size(); part++)
      if (description.keys[key].parts[part].column == column) return layout.index(key).parts[part].source;
  return std::nullopt;
}

Status not_possible(const ColumnDescription &source, const ColumnDescription &target,
                    const std::string &why) {
  return Status(Code::kInvalid, "the column " + source.name + " (" + text_of(source) +
                                    ") cannot refer to the column " + target.name + " (" + text_of(target) +
                                    "): " + why);
}

// Whether the index's key of a value can be made from a text in another column. Under NO PAD the key of a
// CHAR has the spaces that fill the column, and some collations make keys for one length of texts.
bool has_fitting_length(const codec::KeyPart &part, const ColumnDescription &from,
                        const ColumnDescription &to) {
  if (part.kind != codec::KeyKind::kText) return true;
  if (part.filled_with_spaces && !codec::pads(part)) return from.type == to.type && from.length == to.length;
  return !codec::keys_depend_on_length(*part.collation) || from.length <= to.length;
}

// The part of the index with the value from the other table's column.
Status part_of(const Layout &target, size_t index, size_t number, const Layout &source, uint16_t column,
               codec::KeyPart *out) {
  const TableDescription &of_target = target.def().description;
  const TableDescription &of_source = source.def().description;
  const catalog::KeyPartDescription &part = of_target.keys[index].parts[number];
  const ColumnDescription &to = of_target.columns[part.column];
  const ColumnDescription &from = of_source.columns[column];
  if (part.prefix_bytes != 0) return not_possible(from, to, "the index holds only a prefix of it");
  if (const std::string why = why_not_comparable(from, to); !why.empty()) return not_possible(from, to, why);
  if (!has_fitting_length(target.index(index).parts[number], from, to))
    return not_possible(from, to, "under their collation, the type and the length must be the same");
  const std::optional<codec::Column> place = find_source(source, column);
  if (!place) return not_possible(from, to, "it is virtual and in no index");
  *out = target.index(index).parts[number];
  out->always_marked = to.nullable;
  out->never_null = !to.nullable;
  out->source = *place;
  return Status::Ok();
}

bool is_null(const codec::Column &column, const uint8_t *record) {
  return column.null_offset >= 0 && (record[column.null_offset] & column.null_mask) != 0;
}

}  // namespace

std::string why_not_comparable(const ColumnDescription &a, const ColumnDescription &b) {
  if (is_short_text(a) && is_short_text(b))
    return a.charset == b.charset ? "" : "their collations are not the same";
  if (a.type != b.type) return "their types are not the same";
  if (catalog::is_blob(a.type)) return "keys hold only prefixes of values of this type";
  if (catalog::is_text(a.type) && a.charset != b.charset) return "their collations are not the same";
  if (a.type == SqlType::kVarchar) return "";
  if (a.record_bytes != b.record_bytes || a.type_name != b.type_name) return "their types are not the same";
  if (has_sign(a) && a.is_unsigned != b.is_unsigned) return "only one of them is unsigned";
  // The digits behind the point of FLOAT and DOUBLE only say how values are shown.
  const bool is_float = a.type == SqlType::kFloat || a.type == SqlType::kDouble;
  if (!is_float && a.decimals != b.decimals) return "they have not equally many digits behind the point";
  return "";
}

Status ReferenceKey::make(const Layout &target, size_t index, const Layout &source,
                          const std::vector<uint16_t> &columns, std::unique_ptr<const ReferenceKey> *out) {
  for (const Layout *layout : {&target, &source})
    if (!layout->def().description.is_known())
      return Status(Code::kInvalid, "the columns of table " + layout->def().name +
                                        " are not in the catalog yet: open the table once");
  if (index >= target.index_count() || columns.size() > target.index(index).parts.size())
    return Status(Code::kInvalid, "the index has fewer columns than the reference");
  std::vector<codec::KeyPart> parts;
  std::vector<codec::Column> sources;
  for (size_t number = 0; number < columns.size(); number++) {
    if (columns[number] >= source.def().description.columns.size())
      return Status(Code::kInvalid, "the reference names a column that the table does not have");
    ATOLL_RETURN_IF_ERROR(part_of(target, index, number, source, columns[number], &parts.emplace_back()));
    sources.push_back(parts.back().source);
  }
  const size_t count = parts.size();
  codec::KeyCodec codec(target.index(index).ordinal, std::move(parts), count);
  out->reset(new ReferenceKey(target.index(index).start, std::move(codec), std::move(sources)));
  return Status::Ok();
}

bool ReferenceKey::has_null(const uint8_t *record) const {
  for (const codec::Column &source : sources_)
    if (is_null(source, record)) return true;
  return false;
}

void ReferenceKey::append(const uint8_t *record, std::string *key) const {
  key->append(start_);
  codec_.append_parts(record, codec_.part_count(), key, nullptr);
}

}  // namespace atoll::table
