// Random descriptions of tables, for the tests of the catalog and of the layouts that are built from it. Not
// part of the engine.
#pragma once

#include <random>
#include <string>

#include "catalog/description/table_description.h"

namespace atoll::catalog {

inline constexpr uint32_t kToyCharsets = 12;  // as many as codec::testing::toy_collations()

class RandomDescription {
 public:
  explicit RandomDescription(uint64_t seed) : engine_(seed) {}

  // A possible description. Its collations are named toy0 to toy11, or binary.
  TableDescription table() {
    TableDescription table;
    table.server_version = static_cast<uint32_t>(101100 + below(1000));
    for (uint64_t i = 1 + below(12); i > 0; --i) {
      table.columns.push_back(column(static_cast<SqlType>(below(28))));
      table.columns.back().name = "c" + std::to_string(table.columns.size());
    }
    for (uint64_t i = below(4); i > 0; --i) {
      table.keys.push_back(key(table));
      table.keys.back().name = "k" + std::to_string(table.keys.size());
    }
    if (!table.keys.empty() && coin()) table.primary = static_cast<uint16_t>(below(table.keys.size()));
    return table;
  }

  ColumnDescription column(SqlType type) {
    ColumnDescription column;
    column.name = "c";
    column.type = type;
    column.length = static_cast<uint32_t>(1 + below(60));
    column.decimals = static_cast<uint8_t>(below(40));
    column.nullable = coin();
    column.is_unsigned = coin();
    column.zerofill = column.is_unsigned && coin();
    column.generated = static_cast<Generated>(below(10) < 7 ? 0 : below(3));
    column.visibility = static_cast<Visibility>(below(10) < 7 ? 0 : below(4));
    if (type == SqlType::kOther || type == SqlType::kGeometry) column.type_name = "uuid";
    if (is_text(type) || type == SqlType::kEnum || type == SqlType::kSet)
      column.charset = type == SqlType::kGeometry || below(3) == 0
                           ? Charset{"binary", "binary", 63, 1, 1}
                           : toy_charset(static_cast<uint32_t>(below(kToyCharsets)));
    give_bytes(&column);
    return column;
  }

  static Charset toy_charset(uint32_t number) {
    return {"toy", "toy" + std::to_string(number), number + 1, 1, 1};
  }

  uint64_t below(uint64_t bound) { return engine_() % bound; }
  bool coin() { return below(2) == 1; }

 private:
  void give_bytes(ColumnDescription *column) {
    constexpr uint32_t kBytes[] = {1, 2, 3, 4, 8, 4, 8, 0, 0, 1, 3, 0, 0, 0, 4, 0, 8, 0};
    const auto type = static_cast<size_t>(column->type);
    column->record_bytes = type < 18 ? kBytes[type] : 0;
    switch (column->type) {
      case SqlType::kDecimal:
      case SqlType::kBit:
      case SqlType::kSet:
        column->record_bytes = static_cast<uint32_t>(1 + below(8));
        break;
      case SqlType::kTime:
      case SqlType::kOldTime:
        column->record_bytes = 3;
        break;
      case SqlType::kDateTime:
        column->record_bytes = static_cast<uint32_t>(5 + below(4));
        break;
      case SqlType::kTimestamp:
      case SqlType::kOldTimestamp:
        column->record_bytes = 4;
        break;
      case SqlType::kEnum:
        column->record_bytes = static_cast<uint32_t>(1 + below(2));
        break;
      case SqlType::kChar:
        column->record_bytes = column->length;
        break;
      case SqlType::kVarchar:
        column->length_bytes = coin() ? 2 : 1;
        column->record_bytes = column->length + column->length_bytes;
        break;
      case SqlType::kOther:
        column->record_bytes = 16;
        break;
      default:
        if (!is_blob(column->type)) break;
        column->length_bytes = column->type == SqlType::kGeometry
                                   ? 4
                                   : static_cast<uint8_t>(type - static_cast<size_t>(SqlType::kTinyBlob) + 1);
        column->record_bytes = column->length_bytes + 8u;
        column->compressed = below(5) == 0 && column->type != SqlType::kGeometry;
        break;
    }
  }

  KeyDescription key(const TableDescription &table) {
    KeyDescription key;
    key.unique = coin();
    key.is_long_hash = below(10) == 0;
    for (uint64_t i = 1 + below(4); i > 0; --i) {
      KeyPartDescription part;
      part.column = static_cast<uint16_t>(below(table.columns.size()));
      const ColumnDescription &column = table.columns[part.column];
      const bool is_cut = is_blob(column.type) || (is_text(column.type) && below(3) == 0);
      if (is_cut) part.prefix_bytes = static_cast<uint32_t>(1 + below(column.length));
      part.descending = below(3) == 0;
      key.parts.push_back(part);
    }
    return key;
  }

  std::mt19937_64 engine_;
};

}  // namespace atoll::catalog
