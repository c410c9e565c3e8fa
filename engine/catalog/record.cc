// See record.h.
#include "catalog/record.h"

#include <array>

#include "catalog/description/description_record.h"

namespace atoll::catalog {
namespace {

// The version of a TableDef. Version 1 has no list of column defaults, version 2 no extensions.
constexpr char kTableVersion = 3;

// What a table's record can have behind its fixed fields. Each extension has a tag, and tags ascend.
enum class Extension : uint8_t { kDescription = 1, kForeignKeys = 2 };

Status corrupt(const char *what) { return Status(Code::kCorruption, what); }

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

void append_big_endian(uint64_t number, int bytes, std::string *out) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8)
    out->push_back(static_cast<char>(number >> shift));
}

uint64_t read_big_endian(std::string_view bytes) {
  uint64_t number = 0;
  for (const char byte : bytes) number = (number << 8) | static_cast<uint8_t>(byte);
  return number;
}

void write_index(const IndexDef &index, RecordWriter *writer) {
  writer->text(index.name);
  writer->u16(index.ordinal);
  writer->flag(index.unique);
  writer->flag(index.building);
}

IndexDef read_index(RecordReader *reader) {
  IndexDef index;
  index.name = reader->text();
  index.ordinal = reader->u16();
  index.unique = reader->flag();
  index.building = reader->flag();
  return index;
}

void write_version(const SchemaVersion &version, RecordWriter *writer) {
  writer->u32(version.version);
  writer->u32(static_cast<uint32_t>(version.columns.size()));
  for (const codec::PastColumn &column : version.columns) {
    writer->u32(column.id);
    writer->u8(static_cast<uint8_t>(column.kind));
    writer->u32(column.length);
    writer->flag(column.nullable);
  }
}

SchemaVersion read_version(RecordReader *reader) {
  SchemaVersion version;
  version.version = reader->u32();
  const uint32_t count = reader->count(10);
  version.columns.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    codec::PastColumn column;
    column.id = reader->u32();
    column.kind = reader->enumeration(codec::ColumnKind::kChar);
    column.length = reader->u32();
    column.nullable = reader->flag();
    version.columns.push_back(column);
  }
  return version;
}

void write_default(const codec::ColumnDefault &value, RecordWriter *writer) {
  writer->u32(value.id);
  writer->flag(value.null);
  writer->text(value.value);
}

codec::ColumnDefault read_default(RecordReader *reader) {
  codec::ColumnDefault value;
  value.id = reader->u32();
  value.null = reader->flag();
  value.value = reader->text();
  return value;
}

void write_extensions(const TableDef &table, RecordWriter *writer) {
  const bool has_foreign_keys = !table.foreign_keys.empty();
  writer->u32((table.description.is_known() ? 1 : 0) + (has_foreign_keys ? 1 : 0));
  if (table.description.is_known()) {
    writer->u8(static_cast<uint8_t>(Extension::kDescription));
    writer->text(encode(table.description));
  }
  if (has_foreign_keys) {
    writer->u8(static_cast<uint8_t>(Extension::kForeignKeys));
    writer->text(encode(table.foreign_keys));
  }
}

// Refuses an extension that it does not know, because a table that is written without it would lose it.
// Errors: kCorruption of an extension's content; all others are left to the reader's finish().
Status read_extensions(RecordReader *reader, TableDef *table) {
  uint8_t last = 0;
  for (uint32_t i = reader->count(5); i > 0; --i) {
    const uint8_t tag = reader->u8();
    const std::string content = reader->text();
    if (tag <= last) reader->fail("the extensions of the record are out of order");
    if (tag > static_cast<uint8_t>(Extension::kForeignKeys))
      reader->fail("the record has an unknown extension (written by a newer release?)");
    if (reader->has_failed()) return Status::Ok();
    ATOLL_RETURN_IF_ERROR(tag == static_cast<uint8_t>(Extension::kDescription)
                              ? decode(content, &table->description)
                              : decode(content, &table->foreign_keys));
    last = tag;
  }
  return Status::Ok();
}

Doomed::Range make_range(uint32_t family_id, uint64_t start, int bytes) {
  Doomed::Range range;
  range.family_id = family_id;
  append_big_endian(start, bytes, &range.begin);
  append_big_endian(start + 1, bytes, &range.end);
  return range;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  return ~crc;
}

std::string meta_key() { return std::string(1, static_cast<char>(RecordKind::kMeta)); }
std::string masked_key() { return std::string(1, static_cast<char>(RecordKind::kMasked)); }
std::string masking_begun_key() { return std::string(1, static_cast<char>(RecordKind::kMaskingBegun)); }

std::string table_key(RecordKind kind, uint32_t table_id) {
  std::string key(1, static_cast<char>(kind));
  append_big_endian(table_id, 4, &key);
  return key;
}

std::string doomed_key(uint64_t number) {
  std::string key(1, static_cast<char>(RecordKind::kDoomed));
  append_big_endian(number, 8, &key);
  return key;
}

std::string database_key(std::string_view name) {
  return std::string(1, static_cast<char>(RecordKind::kDatabase)).append(name);
}

std::string side_file_key(std::string_view database, std::string_view file_name) {
  std::string key(1, static_cast<char>(RecordKind::kSideFile));
  return key.append(database).append(1, '/').append(file_name);
}

Status parse_table_key(std::string_view key, uint32_t *table_id) {
  if (key.size() != 5) return corrupt("a catalog key has the wrong length");
  *table_id = static_cast<uint32_t>(read_big_endian(key.substr(1)));
  return Status::Ok();
}

Status parse_doomed_key(std::string_view key, uint64_t *number) {
  if (key.size() != 9) return corrupt("a catalog key has the wrong length");
  *number = read_big_endian(key.substr(1));
  return Status::Ok();
}

Status parse_side_file_key(std::string_view key, std::string *database, std::string *file_name) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos || slash == 1 || slash + 1 == key.size())
    return corrupt("the key of a side file does not name a database and a file");
  *database = key.substr(1, slash - 1);
  *file_name = key.substr(slash + 1);
  return Status::Ok();
}

std::string encode(const Meta &meta) {
  RecordWriter writer;
  writer.u32(meta.next_id);
  writer.u64(meta.next_doomed);
  return writer.seal();
}

Status decode(std::string_view value, Meta *out) {
  RecordReader reader(value);
  out->next_id = reader.u32();
  out->next_doomed = reader.u64();
  return reader.finish();
}

std::string encode(const TableDef &table) {
  RecordWriter writer;
  writer.u32(table.id);
  writer.text(table.database);
  writer.text(table.name);
  writer.u32(table.family_id);
  writer.u32(table.prefix);
  writer.flag(table.own_family);
  writer.u8(static_cast<uint8_t>(table.compression.algorithm));
  writer.u32(static_cast<uint32_t>(table.compression.level));
  writer.flag(table.compression_explicit);
  writer.flag(table.hidden_primary_key);
  writer.u32(table.next_column_id);
  writer.u16(table.next_ordinal);
  writer.u32(static_cast<uint32_t>(table.indexes.size()));
  for (const IndexDef &index : table.indexes) write_index(index, &writer);
  writer.u32(static_cast<uint32_t>(table.column_ids.size()));
  for (const uint32_t id : table.column_ids) writer.u32(id);
  writer.u32(static_cast<uint32_t>(table.versions.size()));
  for (const SchemaVersion &version : table.versions) write_version(version, &writer);
  writer.text(table.frm);
  writer.text(table.par);
  writer.flag(table.logical_only);
  writer.u64(table.created_us);
  writer.text(table.former_name);
  writer.u32(static_cast<uint32_t>(table.defaults.size()));
  for (const codec::ColumnDefault &value : table.defaults) write_default(value, &writer);
  write_extensions(table, &writer);
  return writer.seal(kTableVersion);
}

Status decode(std::string_view value, TableDef *out) {
  RecordReader reader(value, kTableVersion);
  TableDef table;
  table.id = reader.u32();
  table.database = reader.text();
  table.name = reader.text();
  table.family_id = reader.u32();
  table.prefix = reader.u32();
  table.own_family = reader.flag();
  table.compression.algorithm = reader.enumeration(lsm::Algorithm::kZlib);
  table.compression.level = static_cast<int32_t>(reader.u32());
  table.compression_explicit = reader.flag();
  table.hidden_primary_key = reader.flag();
  table.next_column_id = reader.u32();
  table.next_ordinal = reader.u16();
  for (uint32_t i = reader.count(8); i > 0; --i) table.indexes.push_back(read_index(&reader));
  for (uint32_t i = reader.count(4); i > 0; --i) table.column_ids.push_back(reader.u32());
  for (uint32_t i = reader.count(8); i > 0; --i) table.versions.push_back(read_version(&reader));
  table.frm = reader.text();
  table.par = reader.text();
  table.logical_only = reader.flag();
  table.created_us = reader.u64();
  table.former_name = reader.text();
  if (reader.version() >= 2)
    for (uint32_t i = reader.count(9); i > 0; --i) table.defaults.push_back(read_default(&reader));
  const Status extended = reader.version() >= 3 ? read_extensions(&reader, &table) : Status::Ok();
  ATOLL_RETURN_IF_ERROR(reader.finish());
  ATOLL_RETURN_IF_ERROR(extended);
  *out = std::move(table);
  return Status::Ok();
}

std::string encode(const Doomed &doomed) {
  RecordWriter writer;
  writer.u32(static_cast<uint32_t>(doomed.ranges.size()));
  for (const Doomed::Range &range : doomed.ranges) {
    writer.u32(range.family_id);
    writer.text(range.begin);
    writer.text(range.end);
  }
  return writer.seal();
}

Status decode(std::string_view value, Doomed *out) {
  RecordReader reader(value);
  std::vector<Doomed::Range> ranges;
  for (uint32_t i = reader.count(12); i > 0; --i) {
    Doomed::Range range;
    range.family_id = reader.u32();
    range.begin = reader.text();
    range.end = reader.text();
    ranges.push_back(std::move(range));
  }
  ATOLL_RETURN_IF_ERROR(reader.finish());
  out->ranges = std::move(ranges);
  return Status::Ok();
}

std::string encode_blob(std::string_view blob) {
  RecordWriter writer;
  writer.text(blob);
  return writer.seal();
}

Status decode_blob(std::string_view value, std::string *out) {
  RecordReader reader(value);
  std::string blob = reader.text();
  ATOLL_RETURN_IF_ERROR(reader.finish());
  *out = std::move(blob);
  return Status::Ok();
}

std::string encode_number(uint64_t number) {
  RecordWriter writer;
  writer.u64(number);
  return writer.seal();
}

Status decode_number(std::string_view value, uint64_t *out) {
  RecordReader reader(value);
  *out = reader.u64();
  return reader.finish();
}

Doomed::Range table_range(const TableDef &table) { return make_range(table.family_id, table.prefix, 4); }

Doomed::Range index_range(const TableDef &table, uint16_t ordinal) {
  return make_range(table.family_id, (static_cast<uint64_t>(table.prefix) << 16) | ordinal, 6);
}

}  // namespace atoll::catalog
