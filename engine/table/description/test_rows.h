// Random rows of described tables, for tests. Not part of the engine.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "catalog/description/test_descriptions.h"
#include "codec/test_tables.h"
#include "table/description/layout_builder.h"

namespace atoll::table {

using catalog::RandomDescription;

// The collations of RandomDescription.
class ToyCollations final : public Collations {
 public:
  const codec::Collation *find(const catalog::Charset &charset) const override {
    if (charset.collation.substr(0, 3) != "toy") return nullptr;
    return codec::testing::toy_collations()[charset.id - 1].get();
  }
};

// A record with the null bits behind the columns, gaps between them and the columns in the reverse order. The
// server's form is another than own_record() as well.
inline catalog::RecordForm odd_record(const catalog::TableDescription &description) {
  catalog::RecordForm form;
  form.places.resize(description.columns.size());
  for (size_t i = description.columns.size(); i-- > 0;) {
    form.places[i].record_offset = form.record_bytes + 1;
    form.record_bytes += description.columns[i].record_bytes + 3;
  }
  for (size_t i = 0; i < description.columns.size(); i++) {
    if (!description.columns[i].nullable) continue;
    form.places[i].null_offset = static_cast<int32_t>(form.record_bytes++);
    form.places[i].null_mask = 0x20;
  }
  return form;
}

// A value of a column, as its bytes: those of the field for a kFixed column, the text without padding for
// others. nullptr: NULL.
using FieldValue = std::shared_ptr<const std::string>;

inline FieldValue random_value(RandomDescription *random, const catalog::ColumnDescription &column) {
  if (column.nullable && random->below(4) == 0) return nullptr;
  const bool is_fixed = kind_of(column) == codec::ColumnKind::kFixed;
  std::string value(is_fixed ? column.record_bytes : random->below(std::min(column.length, 20u) + 1), '\0');
  for (char &byte : value)
    byte = is_fixed ? static_cast<char>(random->below(256)) : "aAbB \t"[random->below(6)];
  return std::make_shared<const std::string>(std::move(value));
}

// A row in a record of some form. The values must outlive it, because BLOBs point to them.
class DescribedRow {
 public:
  DescribedRow(const catalog::TableDescription &description, const catalog::RecordForm &form,
               const std::vector<FieldValue> &values)
      : bytes_(form.record_bytes, 0) {
    for (size_t i = 0; i < values.size(); i++)
      set(catalog::column_of(description.columns[i], form.places[i], 0), values[i]);
  }
  const uint8_t *data() const { return bytes_.data(); }
  uint8_t *data() { return bytes_.data(); }

 private:
  void set(const codec::Column &column, const FieldValue &value) {
    codec::set_null(column, value == nullptr, data());
    if (value == nullptr) return codec::clear_column(column, data());
    uint8_t *field = data() + column.record_offset;
    if (column.kind == codec::ColumnKind::kBlob) return codec::store_blob(field, column.length_bytes, *value);
    if (column.kind == codec::ColumnKind::kVarchar) store_le_bytes(field, value->size(), column.length_bytes);
    if (column.kind == codec::ColumnKind::kChar) std::memset(field, column.pad_byte, column.length);
    std::memcpy(field + (column.kind == codec::ColumnKind::kVarchar ? column.length_bytes : 0), value->data(),
                value->size());
  }

  std::vector<uint8_t> bytes_;
};

// A definition in the catalog that fits the description.
inline catalog::TablePtr definition_of(catalog::TableDescription description) {
  auto def = std::make_shared<catalog::TableDef>();
  def->prefix = 9;
  def->hidden_primary_key = description.primary == catalog::kNoPrimaryKey;
  if (def->hidden_primary_key) def->indexes.push_back({"", def->next_ordinal++, true, false});
  for (const catalog::KeyDescription &key : description.keys)
    def->indexes.push_back({key.name, def->next_ordinal++, key.unique, false});
  for (const catalog::ColumnDescription &column : description.columns)
    if (column.is_stored()) def->column_ids.push_back(def->next_column_id++);
  def->versions.push_back({1, {}});
  def->description = std::move(description);
  return def;
}

}  // namespace atoll::table
