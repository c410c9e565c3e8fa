// See record.h.
#include "catalog/record.h"

#include <array>

namespace atoll::catalog {
namespace {

constexpr char kVersion = 1;
constexpr char kTableVersion = 2;    // of a TableDef; in version 1 it has no list of column defaults
constexpr size_t kHeaderLength = 5;  // 1 byte version, 4 bytes crc32c

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

// Appends the fields of a value. At the end seal() fills in the header, for which the first bytes are
// reserved, and returns the value.
class Writer {
 public:
  Writer() : bytes_(kHeaderLength, '\0') {}

  void integer(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void u8(uint8_t value) { integer(value, 1); }
  void u16(uint16_t value) { integer(value, 2); }
  void u32(uint32_t value) { integer(value, 4); }
  void u64(uint64_t value) { integer(value, 8); }
  void flag(bool value) { integer(value ? 1 : 0, 1); }
  void text(std::string_view value) {
    u32(static_cast<uint32_t>(value.size()));
    bytes_.append(value);
  }

  std::string seal(char version = kVersion) {
    const uint32_t crc = crc32c(std::string_view(bytes_).substr(kHeaderLength));
    bytes_[0] = version;
    for (int i = 0; i < 4; ++i) bytes_[1 + i] = static_cast<char>(crc >> (8 * i));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

// Reads the fields of a value. After the first failure every field reads as zero or empty, and finish()
// returns the error.
class Reader {
 public:
  explicit Reader(std::string_view value, char newest_version = kVersion) {
    if (value.size() < kHeaderLength) {
      fail("the record is shorter than its header");
      return;
    }
    version_ = value[0];
    if (version_ < 1 || version_ > newest_version) {
      fail("the record has an unknown version (written by a newer release?)");
      return;
    }
    uint32_t crc = 0;
    for (int i = 0; i < 4; ++i) crc |= static_cast<uint32_t>(static_cast<uint8_t>(value[1 + i])) << (8 * i);
    rest_ = value.substr(kHeaderLength);
    if (crc32c(rest_) != crc) fail("the record's checksum does not match");
  }

  char version() const { return version_; }

  uint64_t integer(size_t bytes) {
    if (rest_.size() < bytes) {
      fail("the record ends too early");
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i)
      value |= static_cast<uint64_t>(static_cast<uint8_t>(rest_[i])) << (8 * i);
    rest_.remove_prefix(bytes);
    return value;
  }
  uint8_t u8() { return static_cast<uint8_t>(integer(1)); }
  uint16_t u16() { return static_cast<uint16_t>(integer(2)); }
  uint32_t u32() { return static_cast<uint32_t>(integer(4)); }
  uint64_t u64() { return integer(8); }
  bool flag() {
    const uint64_t value = integer(1);
    if (value > 1) fail("a flag is neither 0 nor 1");
    return value == 1;
  }
  template <typename Enum>
  Enum enumeration(Enum last) {
    const uint8_t value = u8();
    if (value > static_cast<uint8_t>(last)) fail("an enumeration has an unknown value");
    return static_cast<Enum>(value);
  }
  std::string text() {
    const uint32_t length = u32();
    if (rest_.size() < length) {
      fail("a string is longer than its record");
      return {};
    }
    std::string value(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return value;
  }
  // Reads the number of elements of a list. Each element takes at least `bytes_min` bytes, so a number that
  // does not fit into the unread bytes is an error. A broken number thus cannot cause a huge allocation.
  uint32_t count(size_t bytes_min) {
    const uint32_t value = u32();
    if (value > rest_.size() / bytes_min) {
      fail("a list is longer than its record");
      return 0;
    }
    return value;
  }

  Status finish() {
    if (error_ == nullptr && !rest_.empty()) error_ = "the record has bytes behind its end";
    return error_ == nullptr ? Status::Ok() : corrupt(error_);
  }

 private:
  void fail(const char *what) {
    if (error_ == nullptr) error_ = what;
    rest_ = {};
  }

  std::string_view rest_;
  char version_ = 0;
  const char *error_ = nullptr;
};

void write_index(const IndexDef &index, Writer *writer) {
  writer->text(index.name);
  writer->u16(index.ordinal);
  writer->flag(index.unique);
  writer->flag(index.building);
}

IndexDef read_index(Reader *reader) {
  IndexDef index;
  index.name = reader->text();
  index.ordinal = reader->u16();
  index.unique = reader->flag();
  index.building = reader->flag();
  return index;
}

void write_version(const SchemaVersion &version, Writer *writer) {
  writer->u32(version.version);
  writer->u32(static_cast<uint32_t>(version.columns.size()));
  for (const codec::PastColumn &column : version.columns) {
    writer->u32(column.id);
    writer->u8(static_cast<uint8_t>(column.kind));
    writer->u32(column.length);
    writer->flag(column.nullable);
  }
}

SchemaVersion read_version(Reader *reader) {
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

void write_default(const codec::ColumnDefault &value, Writer *writer) {
  writer->u32(value.id);
  writer->flag(value.null);
  writer->text(value.value);
}

codec::ColumnDefault read_default(Reader *reader) {
  codec::ColumnDefault value;
  value.id = reader->u32();
  value.null = reader->flag();
  value.value = reader->text();
  return value;
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
  Writer writer;
  writer.u32(meta.next_id);
  writer.u64(meta.next_doomed);
  return writer.seal();
}

Status decode(std::string_view value, Meta *out) {
  Reader reader(value);
  out->next_id = reader.u32();
  out->next_doomed = reader.u64();
  return reader.finish();
}

std::string encode(const TableDef &table) {
  Writer writer;
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
  return writer.seal(kTableVersion);
}

Status decode(std::string_view value, TableDef *out) {
  Reader reader(value, kTableVersion);
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
  ATOLL_RETURN_IF_ERROR(reader.finish());
  *out = std::move(table);
  return Status::Ok();
}

std::string encode(const Doomed &doomed) {
  Writer writer;
  writer.u32(static_cast<uint32_t>(doomed.ranges.size()));
  for (const Doomed::Range &range : doomed.ranges) {
    writer.u32(range.family_id);
    writer.text(range.begin);
    writer.text(range.end);
  }
  return writer.seal();
}

Status decode(std::string_view value, Doomed *out) {
  Reader reader(value);
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
  Writer writer;
  writer.text(blob);
  return writer.seal();
}

Status decode_blob(std::string_view value, std::string *out) {
  Reader reader(value);
  std::string blob = reader.text();
  ATOLL_RETURN_IF_ERROR(reader.finish());
  *out = std::move(blob);
  return Status::Ok();
}

std::string encode_number(uint64_t number) {
  Writer writer;
  writer.u64(number);
  return writer.seal();
}

Status decode_number(std::string_view value, uint64_t *out) {
  Reader reader(value);
  *out = reader.u64();
  return reader.finish();
}

Doomed::Range table_range(const TableDef &table) { return make_range(table.family_id, table.prefix, 4); }

Doomed::Range index_range(const TableDef &table, uint16_t ordinal) {
  return make_range(table.family_id, (static_cast<uint64_t>(table.prefix) << 16) | ordinal, 6);
}

}  // namespace atoll::catalog
