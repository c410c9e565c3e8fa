// libFuzzer over what the engine reads from table files: rows, keys and descriptions of tables.
// ATOLL_FUZZ_TARGET names the target; ATOLL_FUZZ_SEEDS=DIR writes valid inputs of it into a folder instead.
//
// An input begins with two bytes that choose a random table or index; what follows is what stands in the
// database. For a description the two bytes mean nothing.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "catalog/description/description_record.h"
#include "catalog/description/test_descriptions.h"
#include "codec/key_codec.h"
#include "codec/large_row.h"
#include "codec/row_codec.h"
#include "codec/test_indexes.h"
#include "codec/test_tables.h"

namespace atoll::codec::testing {
namespace {

constexpr size_t kShapeBytes = 2;
constexpr int kSeeds = 8;

void require(bool holds, const char *what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  __builtin_trap();
}

uint64_t shape_of(std::string_view input) { return load_le_bytes(as_bytes(input), kShapeBytes); }

std::string shape_bytes(uint64_t shape) {
  std::string bytes(kShapeBytes, '\0');
  store_le_bytes(reinterpret_cast<uint8_t *>(bytes.data()), shape, kShapeBytes);
  return bytes;
}

// A table of all kinds of columns, the same for the same number.
Table table_of(uint64_t shape) {
  Random random(shape);
  Table table;
  for (size_t left = random.below(12); left > 0; --left) {
    const bool nullable = random.one_in(2);
    switch (random.below(4)) {
      case 0:
        table.add(fixed(static_cast<uint32_t>(1 + random.below(12))), nullable);
        break;
      case 1:
        table.add(varchar(static_cast<uint32_t>(random.below(300))), nullable);
        break;
      case 2:
        table.add(padded_char(static_cast<uint32_t>(random.below(30))), nullable);
        break;
      default:
        table.add(blob(static_cast<uint8_t>(1 + random.below(4))), nullable);
        break;
    }
  }
  return table;
}

std::string packed(const RowCodec &codec, const Record &record) {
  std::string bytes;
  codec.pack(record.data(), &bytes);
  return bytes;
}

// What can be read of a row survives the way to bytes and back, and each column is found where it was
// unpacked from.
void read_row(std::string_view input) {
  const Table table = table_of(shape_of(input));
  const ExactCopy stored(input.substr(kShapeBytes));
  LargeRow large;
  if (is_large_row(stored.view()) && decode(stored.view(), &large).ok())
    require(encode(large) == stored.view(), "a reference to a large row comes back");
  const RowCodec codec(1, table.columns());
  Record record(table);
  PackedValue value;
  const bool is_row = codec.unpack(stored.view(), nullptr, record.data()).ok();
  for (size_t i = 0; i < table.columns().size(); ++i) {
    const bool is_found = codec.find(stored.view(), i, &value).ok();
    require(is_found || !is_row, "a column of a row that can be read is found");
  }
  if (!is_row) return;
  const ExactCopy once(packed(codec, record));
  Record again(table);
  require(codec.unpack(once.view(), nullptr, again.data()).ok(), "a packed row can be read");
  require(packed(codec, again) == once.view(), "a row comes back as it was");
}

std::string row_seed(uint64_t shape) {
  const Table table = table_of(shape);
  Random random(shape);
  Record record(table);
  for (const Column &column : table.columns()) {
    if (column.null_offset >= 0 && random.one_in(3))
      record.set_null_value(column);
    else if (column.kind == ColumnKind::kFixed)
      record.set(column, std::string(column.length, 'f'));
    else
      record.set(column, random.text(std::min<uint32_t>(column.length, 20), "ab x"));
  }
  return shape_bytes(shape) + packed(RowCodec(1, table.columns()), record);
}

Index index_of(uint64_t shape) {
  Random random(shape);
  return random_index(random);
}

// The third byte is the length of the key; the entry's value follows it.
void read_key(std::string_view input) {
  const Index index = index_of(shape_of(input));
  input.remove_prefix(kShapeBytes);
  if (input.empty()) return;
  const size_t length = static_cast<uint8_t>(input.front());
  const ExactCopy key(input.substr(1, length));
  const ExactCopy unpack(input.size() > 1 + length ? input.substr(1 + length) : std::string_view(""));
  const KeyCodec codec(1, index.parts, index.parts.size());
  size_t bytes = 0;
  const bool has_parts = codec.skip_parts(key.view(), index.parts.size(), &bytes).ok();
  require(!has_parts || bytes <= key.view().size(), "the parts of a key lie within it");
  (void)codec.text_of(key.view());
  Record record(index.table);
  const bool is_entry = codec.decode(key.view(), unpack.view(), record.data()).ok();
  require(has_parts || !is_entry, "an entry that can be read has all parts");
}

std::string key_seed(uint64_t shape) {
  const Index index = index_of(shape);
  Random random(shape);
  const Record record = random_record(random, index);
  const KeyCodec codec(1, index.parts, index.parts.size());
  std::string key, unpack;
  codec.append_parts(record.data(), index.parts.size(), &key, nullptr);
  codec.append_unpack(record.data(), &unpack);
  key.resize(std::min<size_t>(key.size(), 255));
  return shape_bytes(shape) + static_cast<char>(key.size()) + key + unpack;
}

// What can be read of a description is possible, is written to the same bytes, and can be shown.
void read_description(std::string_view input) {
  const ExactCopy stored(input.substr(kShapeBytes));
  catalog::TableDescription table;
  if (!catalog::decode(stored.view(), &table).ok()) return;
  require(catalog::check(table).ok(), "a description that can be read is possible");
  require(catalog::encode(table) == stored.view(), "a description comes back as it was");
  require(catalog::difference(table, table).empty(), "a description is as it is");
  catalog::TableDescription other = table;
  other.columns.pop_back();
  for (catalog::ColumnDescription &column : other.columns) column.name += "'";
  other.keys.clear();
  require(!catalog::difference(table, other).empty(), "a difference is told");
  (void)catalog::changes(other, table);
}

std::string description_seed(uint64_t shape) {
  return shape_bytes(shape) + catalog::encode(catalog::RandomDescription(shape).table());
}

struct Target {
  const char *name;
  void (*read)(std::string_view input);
  std::string (*seed)(uint64_t shape);
};

constexpr Target kTargets[] = {{"rows", read_row, row_seed},
                               {"keys", read_key, key_seed},
                               {"descriptions", read_description, description_seed}};

const Target &chosen() {
  const char *name = std::getenv("ATOLL_FUZZ_TARGET");
  for (const Target &target : kTargets)
    if (name != nullptr && std::strcmp(name, target.name) == 0) return target;
  std::fprintf(stderr, "ATOLL_FUZZ_TARGET must be one of rows keys descriptions\n");
  std::exit(2);
}

}  // namespace

void write_seeds_if_asked() {
  const Target &target = chosen();
  const char *folder = std::getenv("ATOLL_FUZZ_SEEDS");
  if (folder == nullptr) return;
  for (uint64_t shape = 1; shape <= kSeeds; ++shape)
    std::ofstream(std::string(folder) + "/seed-" + std::to_string(shape), std::ios::binary)
        << target.seed(shape);
  std::exit(0);
}

void run(std::string_view input) {
  static const Target &target = chosen();
  if (input.size() >= kShapeBytes) target.read(input);
}

}  // namespace atoll::codec::testing

extern "C" int LLVMFuzzerInitialize(int * /*argc*/, char *** /*argv*/) {
  atoll::codec::testing::write_seeds_if_asked();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  atoll::codec::testing::run({reinterpret_cast<const char *>(bytes), size});
  return 0;
}
