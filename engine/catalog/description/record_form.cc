// See record_form.h.
#include "catalog/description/record_form.h"

namespace atoll::catalog {

RecordForm own_record(const TableDescription &description) {
  RecordForm form;
  uint32_t nullable = 0;
  for (const ColumnDescription &column : description.columns) nullable += column.nullable ? 1 : 0;
  form.record_bytes = (nullable + 7) / 8;
  uint32_t null_bit = 0;
  for (const ColumnDescription &column : description.columns) {
    ColumnPlace place;
    place.record_offset = form.record_bytes;
    form.record_bytes += column.record_bytes;
    if (column.nullable) {
      place.null_offset = static_cast<int32_t>(null_bit / 8);
      place.null_mask = static_cast<uint8_t>(1u << (null_bit % 8));
      null_bit++;
    }
    form.places.push_back(std::move(place));
  }
  return form;
}

codec::Column column_of(const ColumnDescription &column, const ColumnPlace &place, uint32_t id) {
  codec::Column result;
  result.id = id;
  result.kind = kind_of(column);
  result.record_offset = place.record_offset;
  result.length = column.record_bytes;
  if (result.kind == codec::ColumnKind::kBlob) result.length = UINT32_MAX;
  if (result.kind == codec::ColumnKind::kVarchar) result.length = column.length;
  result.length_bytes = column.length_bytes;
  if (result.kind == codec::ColumnKind::kChar)
    result.pad_byte = column.charset.collation == "binary" ? 0 : ' ';
  result.null_offset = place.null_offset;
  result.null_mask = place.null_mask;
  result.null_bytes = place.null_bytes;
  return result;
}

Status row_codec_of(const TableDef &def, const TableDescription &description, const RecordForm &form,
                    std::shared_ptr<const codec::RowCodec> *out, std::vector<int> *stored) {
  std::vector<codec::Column> columns;
  stored->assign(description.columns.size(), -1);
  for (size_t i = 0; i < description.columns.size(); i++) {
    if (!description.columns[i].is_stored()) continue;
    const size_t position = columns.size();
    if (position >= def.column_ids.size())
      return Status(Code::kInvalid, "it has more columns than its definition");
    (*stored)[i] = static_cast<int>(position);
    columns.push_back(column_of(description.columns[i], form.places[i], def.column_ids[position]));
  }
  if (columns.size() != def.column_ids.size())
    return Status(Code::kInvalid, "it has fewer columns than its definition");
  auto row = std::make_shared<codec::RowCodec>(def.versions.back().version, std::move(columns), def.defaults);
  for (size_t i = 0; i + 1 < def.versions.size(); i++)
    row->add_past_version(def.versions[i].version, def.versions[i].columns);
  *out = std::move(row);
  return Status::Ok();
}

}  // namespace atoll::catalog
