// See foreign_key.h.
#include "catalog/description/foreign_key.h"

#include <algorithm>
#include <strings.h>

#include "catalog/record_bytes.h"

namespace atoll::catalog {
namespace {

// The fewest bytes that a constraint and a pair of columns take (RecordReader::count()).
constexpr size_t kForeignKeyBytesMin = 18;
constexpr size_t kColumnsBytesMin = 8;

void write_foreign_key(const ForeignKeyDef &key, RecordWriter *writer) {
  writer->text(key.name);
  writer->text(key.parent_database);
  writer->text(key.parent_table);
  writer->u8(static_cast<uint8_t>(key.on_delete));
  writer->u8(static_cast<uint8_t>(key.on_update));
  writer->u32(static_cast<uint32_t>(key.columns.size()));
  for (size_t i = 0; i < key.columns.size(); i++) {
    writer->text(key.columns[i]);
    writer->text(key.parent_columns[i]);
  }
}

ForeignKeyDef read_foreign_key(RecordReader *reader) {
  ForeignKeyDef key;
  key.name = reader->text();
  key.parent_database = reader->text();
  key.parent_table = reader->text();
  key.on_delete = reader->enumeration(ReferenceAction::kSetDefault);
  key.on_update = reader->enumeration(ReferenceAction::kSetDefault);
  for (uint32_t i = reader->count(kColumnsBytesMin); i > 0; --i) {
    key.columns.push_back(reader->text());
    key.parent_columns.push_back(reader->text());
  }
  if (key.columns.empty()) reader->fail("a foreign key has no columns");
  return key;
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

void sort_by_name(std::vector<ForeignKeyDef> *foreign_keys) {
  std::stable_sort(foreign_keys->begin(), foreign_keys->end(),
                   [](const ForeignKeyDef &a, const ForeignKeyDef &b) { return a.name < b.name; });
}

std::string encode(const std::vector<ForeignKeyDef> &foreign_keys) {
  RecordWriter writer;
  writer.u32(static_cast<uint32_t>(foreign_keys.size()));
  for (const ForeignKeyDef &key : foreign_keys) write_foreign_key(key, &writer);
  return writer.take_fields();
}

Status decode(std::string_view fields, std::vector<ForeignKeyDef> *out) {
  RecordReader reader = RecordReader::of_fields(fields);
  std::vector<ForeignKeyDef> keys;
  for (uint32_t i = reader.count(kForeignKeyBytesMin); i > 0; --i) keys.push_back(read_foreign_key(&reader));
  if (keys.empty()) reader.fail("the list of foreign keys is empty");
  ATOLL_RETURN_IF_ERROR(reader.finish());
  *out = std::move(keys);
  return Status::Ok();
}

}  // namespace atoll::catalog
