// See table_description.h.
#include "catalog/description/table_description.h"

#include <algorithm>
#include <array>
#include <strings.h>

namespace atoll::catalog {
namespace {

constexpr uint8_t kUnlimitedDecimals = 31;  // FLOAT and DOUBLE without (M,D) have 31 or more
constexpr uint32_t kRecordBytesMax = 1 << 17;

// What a type's columns look like in a record. `bytes`: the only or, with `bytes_max`, the smallest length.
struct Shape {
  SqlType type;
  const char *name;
  uint32_t bytes;      // 0: any length
  uint32_t bytes_max;  // 0: `bytes` is the only length
  uint8_t length_bytes;
};

constexpr std::array<Shape, 28> kShapes = {{
    {SqlType::kTinyInt, "tinyint", 1, 0, 0},
    {SqlType::kSmallInt, "smallint", 2, 0, 0},
    {SqlType::kMediumInt, "mediumint", 3, 0, 0},
    {SqlType::kInt, "int", 4, 0, 0},
    {SqlType::kBigInt, "bigint", 8, 0, 0},
    {SqlType::kFloat, "float", 4, 0, 0},
    {SqlType::kDouble, "double", 8, 0, 0},
    {SqlType::kDecimal, "decimal", 1, 32, 0},
    {SqlType::kBit, "bit", 1, 8, 0},
    {SqlType::kYear, "year", 1, 0, 0},
    {SqlType::kDate, "date", 3, 0, 0},
    {SqlType::kTime, "time", 3, 6, 0},
    {SqlType::kDateTime, "datetime", 5, 8, 0},
    {SqlType::kTimestamp, "timestamp", 4, 7, 0},
    {SqlType::kOldDate, "date", 4, 0, 0},
    {SqlType::kOldTime, "time", 3, 8, 0},
    {SqlType::kOldDateTime, "datetime", 5, 8, 0},
    {SqlType::kOldTimestamp, "timestamp", 4, 8, 0},
    {SqlType::kChar, "char", 0, 0, 0},
    {SqlType::kVarchar, "varchar", 0, 0, 2},
    {SqlType::kTinyBlob, "tiny", 0, 0, 1},
    {SqlType::kBlob, "", 0, 0, 2},
    {SqlType::kMediumBlob, "medium", 0, 0, 3},
    {SqlType::kLongBlob, "long", 0, 0, 4},
    {SqlType::kEnum, "enum", 1, 2, 0},
    {SqlType::kSet, "set", 1, 8, 0},
    {SqlType::kGeometry, "", 0, 0, 4},
    {SqlType::kOther, "", 0, 0, 0},
}};

const Shape &shape_of(SqlType type) { return kShapes[static_cast<size_t>(type)]; }

bool has_charset(SqlType type) { return is_text(type) || type == SqlType::kEnum || type == SqlType::kSet; }

bool is_possible(const ColumnDescription &column) {
  const Shape &shape = shape_of(column.type);
  if (column.name.empty() || column.record_bytes > kRecordBytesMax) return false;
  if (shape.bytes != 0 &&
      (column.record_bytes < shape.bytes || column.record_bytes > std::max(shape.bytes, shape.bytes_max)))
    return false;
  const bool is_varchar = column.type == SqlType::kVarchar;
  if (is_varchar ? column.length_bytes != 1 && column.length_bytes != 2
                 : column.length_bytes != shape.length_bytes)
    return false;
  if (is_varchar && column.record_bytes != column.length + column.length_bytes) return false;
  if (column.type == SqlType::kChar && column.record_bytes != column.length) return false;
  const Charset &charset = column.charset;
  if (!has_charset(column.type)) return charset == Charset{};
  return !charset.collation.empty() && charset.bytes_min >= 1 && charset.bytes_min <= charset.bytes_max;
}

Status impossible(const std::string &what) {
  return Status(Code::kCorruption, "the description of " + what + " in the catalog is impossible");
}

Status check_key(const TableDescription &table, const KeyDescription &key) {
  bool is_possible = !key.parts.empty();
  for (const KeyPartDescription &part : key.parts) {
    is_possible = is_possible && part.column < table.columns.size();
    if (is_possible && part.prefix_bytes != 0) is_possible = is_text(table.columns[part.column].type);
  }
  return is_possible ? Status::Ok() : impossible("the key " + key.name);
}

bool is_bytes(const Charset &charset) { return charset.collation == "binary"; }

std::string in_parentheses(uint64_t number) { return "(" + std::to_string(number) + ")"; }

// The digits of a DECIMAL: its width without the sign and the point.
uint32_t precision_of(const ColumnDescription &column) {
  const uint32_t others = (column.decimals > 0 ? 1u : 0u) + (column.is_unsigned ? 0u : 1u);
  return column.length > others ? column.length - others : 0;
}

std::string string_type_text(const ColumnDescription &column) {
  const std::string name = shape_of(column.type).name;
  const bool bytes = is_bytes(column.charset);
  // The server counts one more byte for a compressed value.
  const uint32_t bytes_max = column.length - (column.compressed && column.length > 0 ? 1 : 0);
  const std::string characters = in_parentheses(bytes_max / column.charset.bytes_max);
  if (column.type == SqlType::kChar) return (bytes ? "binary" : "char") + characters;
  if (column.type == SqlType::kVarchar) return (bytes ? "varbinary" : "varchar") + characters;
  return name + (bytes ? "blob" : "text");
}

std::string type_text(const ColumnDescription &column) {
  const std::string name = shape_of(column.type).name;
  switch (column.type) {
    case SqlType::kFloat:
    case SqlType::kDouble:
      if (column.decimals >= kUnlimitedDecimals) return name;
      return name + "(" + std::to_string(column.length) + "," + std::to_string(column.decimals) + ")";
    case SqlType::kDecimal:
      return name + "(" + std::to_string(precision_of(column)) + "," + std::to_string(column.decimals) + ")";
    case SqlType::kBit:
    case SqlType::kYear:
      return name + in_parentheses(column.length);
    case SqlType::kTime:
    case SqlType::kDateTime:
    case SqlType::kTimestamp:
    case SqlType::kOldTime:
    case SqlType::kOldDateTime:
    case SqlType::kOldTimestamp:
      return column.decimals == 0 ? name : name + in_parentheses(column.decimals);
    case SqlType::kGeometry:
    case SqlType::kOther:
      return column.type_name;
    case SqlType::kEnum:
    case SqlType::kSet:
    case SqlType::kDate:
    case SqlType::kOldDate:
      return name;
    default:
      return is_integer(column.type) ? name + in_parentheses(column.length) : string_type_text(column);
  }
}

bool same_letters(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

template <typename Named>
int position_of(const std::vector<Named> &all, std::string_view name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Named &one) { return same_letters(one.name, name); });
  return found == all.end() ? -1 : static_cast<int>(found - all.begin());
}

// The sentence about two sides that differ. `detail`: what makes them differ if their texts do not.
std::string both_sides(const std::string &what, const std::string &stored, const std::string &opened,
                       const std::string &detail) {
  const std::string more = stored == opened ? " (" + detail + ")" : "";
  return what + " is `" + stored + "` in the catalog, but `" + opened + "` in the table's .frm" + more;
}

std::string bytes_text(const ColumnDescription &column) {
  return std::to_string(column.record_bytes) + " bytes, collation " + std::to_string(column.charset.id);
}

std::string column_difference(const ColumnDescription &stored, const ColumnDescription &opened) {
  if (stored.name != opened.name)
    return "the catalog has the column " + stored.name + " where the table's .frm has " + opened.name;
  return both_sides("the column " + stored.name, text_of(stored), text_of(opened),
                    bytes_text(stored) + ", now " + bytes_text(opened));
}

}  // namespace

bool is_integer(SqlType type) { return type <= SqlType::kBigInt; }

bool is_blob(SqlType type) {
  return (type >= SqlType::kTinyBlob && type <= SqlType::kLongBlob) || type == SqlType::kGeometry;
}

bool is_text(SqlType type) { return type == SqlType::kChar || type == SqlType::kVarchar || is_blob(type); }

int TableDescription::find_column(std::string_view name) const { return position_of(columns, name); }

int TableDescription::find_key(std::string_view name) const { return position_of(keys, name); }

codec::ColumnKind kind_of(const ColumnDescription &column) {
  if (is_blob(column.type)) return codec::ColumnKind::kBlob;
  if (column.type == SqlType::kVarchar) return codec::ColumnKind::kVarchar;
  const bool is_char = column.type == SqlType::kChar && column.charset.bytes_min == 1;
  return is_char ? codec::ColumnKind::kChar : codec::ColumnKind::kFixed;
}

Status check(const TableDescription &description) {
  if (description.columns.empty()) return impossible("a table without columns");
  for (const ColumnDescription &column : description.columns)
    if (!is_possible(column)) return impossible("the column " + column.name);
  for (const KeyDescription &key : description.keys) ATOLL_RETURN_IF_ERROR(check_key(description, key));
  if (description.primary != kNoPrimaryKey && description.primary >= description.keys.size())
    return impossible("the primary key");
  return Status::Ok();
}

std::string text_of(const ColumnDescription &column) {
  std::string text = type_text(column);
  if (column.compressed) text += " COMPRESSED";
  // The server also gives the flag to types that cannot have the word, for example BIT and UUID.
  if (column.is_unsigned && column.type != SqlType::kOther && column.type != SqlType::kBit)
    text += " unsigned";
  if (column.zerofill) text += " zerofill";
  if (!column.charset.collation.empty() && !is_bytes(column.charset))
    text += " COLLATE " + column.charset.collation;
  if (!column.nullable) text += " NOT NULL";
  if (column.generated != Generated::kNo)
    text += column.generated == Generated::kVirtual ? " VIRTUAL" : " STORED";
  if (column.visibility == Visibility::kInvisible) text += " INVISIBLE";
  if (column.visibility == Visibility::kSystem) text += " SYSTEM INVISIBLE";
  if (column.visibility == Visibility::kHidden) text += " HIDDEN";
  return text;
}

std::string text_of(const KeyDescription &key, const TableDescription &table) {
  std::string text = key.unique ? "UNIQUE (" : "(";
  for (const KeyPartDescription &part : key.parts) {
    const ColumnDescription &column = table.columns[part.column];
    if (&part != &key.parts.front()) text += ", ";
    text += column.name;
    if (part.prefix_bytes != 0) text += in_parentheses(part.prefix_bytes / column.charset.bytes_max);
    if (part.descending) text += " DESC";
  }
  text += ")";
  return key.is_long_hash ? text + " USING HASH" : text;
}

std::string version_text(uint32_t server_version) {
  if (server_version == 0) return {};
  return std::to_string(server_version / 10000) + "." + std::to_string(server_version / 100 % 100) + "." +
         std::to_string(server_version % 100);
}

std::string difference(const TableDescription &stored, const TableDescription &opened) {
  const std::vector<ColumnDescription> &a = stored.columns, &b = opened.columns;
  for (size_t i = 0; i < std::min(a.size(), b.size()); i++)
    if (!(a[i] == b[i])) return column_difference(a[i], b[i]);
  if (a.size() > b.size()) return "the table's .frm lacks the column " + a[b.size()].name + " of the catalog";
  if (a.size() < b.size()) return "the catalog lacks the column " + b[a.size()].name + " of the table's .frm";
  for (const KeyDescription &key : stored.keys) {
    const auto same = [&](const KeyDescription &other) { return other.name == key.name; };
    const auto found = std::find_if(opened.keys.begin(), opened.keys.end(), same);
    if (found == opened.keys.end()) return "the table's .frm lacks the key " + key.name + " of the catalog";
    if (!(*found == key))
      return both_sides("the key " + key.name, text_of(key, stored), text_of(*found, opened),
                        "with other attributes");
  }
  if (stored.keys.size() != opened.keys.size())
    return "the table's .frm has " + std::to_string(opened.keys.size()) + " keys, the catalog " +
           std::to_string(stored.keys.size());
  if (stored.keys != opened.keys)
    return "the keys have another order in the catalog than in the table's .frm";
  return stored.primary == opened.primary ? "" : "the catalog has another primary key than the table's .frm";
}

std::string changes(const TableDescription &before, const TableDescription &after) {
  if (!before.is_known() || !after.is_known()) return {};
  std::string text;
  const auto note = [&text](const std::string &what) { text += (text.empty() ? "" : "; ") + what; };
  const auto compare = [&](const auto &old_ones, const auto &new_ones, const auto &old_text,
                           const auto &new_text) {
    for (const auto &one : new_ones) {
      const int was = position_of(old_ones, one.name);
      if (was < 0)
        note("+ " + one.name + " " + new_text(one));
      else if (const std::string former = old_text(old_ones[static_cast<size_t>(was)]);
               former != new_text(one))
        note(one.name + ": " + former + " -> " + new_text(one));
    }
    for (const auto &one : old_ones)
      if (position_of(new_ones, one.name) < 0) note("- " + one.name);
  };
  const auto of_column = [](const ColumnDescription &column) { return text_of(column); };
  compare(before.columns, after.columns, of_column, of_column);
  compare(
      before.keys, after.keys, [&](const KeyDescription &key) { return "key " + text_of(key, before); },
      [&](const KeyDescription &key) { return "key " + text_of(key, after); });
  return text;
}

}  // namespace atoll::catalog
