// See description_record.h.
#include "catalog/description/description_record.h"

#include "catalog/record_bytes.h"

namespace atoll::catalog {
namespace {

// The fewest bytes that a column, a key and a part of a key take (RecordReader::count()).
constexpr size_t kColumnBytesMin = 39;
constexpr size_t kKeyBytesMin = 10;
constexpr size_t kPartBytesMin = 7;

void write_column(const ColumnDescription &column, RecordWriter *writer) {
  writer->text(column.name);
  writer->u8(static_cast<uint8_t>(column.type));
  writer->text(column.type_name);
  writer->u32(column.length);
  writer->u8(column.decimals);
  writer->u32(column.record_bytes);
  writer->u8(column.length_bytes);
  for (const bool flag : {column.nullable, column.is_unsigned, column.zerofill, column.compressed})
    writer->flag(flag);
  writer->u8(static_cast<uint8_t>(column.generated));
  writer->u8(static_cast<uint8_t>(column.visibility));
  writer->text(column.charset.name);
  writer->text(column.charset.collation);
  writer->u32(column.charset.id);
  writer->u8(column.charset.bytes_min);
  writer->u8(column.charset.bytes_max);
}

ColumnDescription read_column(RecordReader *reader) {
  ColumnDescription column;
  column.name = reader->text();
  column.type = reader->enumeration(SqlType::kOther);
  column.type_name = reader->text();
  column.length = reader->u32();
  column.decimals = reader->u8();
  column.record_bytes = reader->u32();
  column.length_bytes = reader->u8();
  for (bool *flag : {&column.nullable, &column.is_unsigned, &column.zerofill, &column.compressed})
    *flag = reader->flag();
  column.generated = reader->enumeration(Generated::kStored);
  column.visibility = reader->enumeration(Visibility::kHidden);
  column.charset.name = reader->text();
  column.charset.collation = reader->text();
  column.charset.id = reader->u32();
  column.charset.bytes_min = reader->u8();
  column.charset.bytes_max = reader->u8();
  return column;
}

void write_key(const KeyDescription &key, RecordWriter *writer) {
  writer->text(key.name);
  writer->flag(key.unique);
  writer->flag(key.is_long_hash);
  writer->u32(static_cast<uint32_t>(key.parts.size()));
  for (const KeyPartDescription &part : key.parts) {
    writer->u16(part.column);
    writer->u32(part.prefix_bytes);
    writer->flag(part.descending);
  }
}

KeyDescription read_key(RecordReader *reader) {
  KeyDescription key;
  key.name = reader->text();
  key.unique = reader->flag();
  key.is_long_hash = reader->flag();
  for (uint32_t i = reader->count(kPartBytesMin); i > 0; --i) {
    KeyPartDescription part;
    part.column = reader->u16();
    part.prefix_bytes = reader->u32();
    part.descending = reader->flag();
    key.parts.push_back(part);
  }
  return key;
}

}  // namespace

std::string encode(const TableDescription &description) {
  RecordWriter writer;
  writer.u32(description.server_version);
  writer.u16(description.primary);
  writer.u32(static_cast<uint32_t>(description.columns.size()));
  for (const ColumnDescription &column : description.columns) write_column(column, &writer);
  writer.u32(static_cast<uint32_t>(description.keys.size()));
  for (const KeyDescription &key : description.keys) write_key(key, &writer);
  return writer.take_fields();
}

Status decode(std::string_view fields, TableDescription *out) {
  RecordReader reader = RecordReader::of_fields(fields);
  TableDescription description;
  description.server_version = reader.u32();
  description.primary = reader.u16();
  for (uint32_t i = reader.count(kColumnBytesMin); i > 0; --i)
    description.columns.push_back(read_column(&reader));
  for (uint32_t i = reader.count(kKeyBytesMin); i > 0; --i) description.keys.push_back(read_key(&reader));
  ATOLL_RETURN_IF_ERROR(reader.finish());
  ATOLL_RETURN_IF_ERROR(check(description));
  *out = std::move(description);
  return Status::Ok();
}

}  // namespace atoll::catalog
