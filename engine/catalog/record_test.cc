// Tests the encoding of catalog rows: random definitions survive a round trip, and other bytes are refused.
#include "catalog/record.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/bytes.h"
#include "catalog/description/test_descriptions.h"

namespace atoll::catalog {
namespace {

uint32_t seed() {
  const char *given = std::getenv("ATOLL_TEST_SEED");
  return given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10)) : std::random_device()();
}

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint64_t below(uint64_t bound) { return std::uniform_int_distribution<uint64_t>(0, bound - 1)(engine_); }
  uint64_t any() { return engine_() >> below(64); }
  bool coin() { return below(2) == 1; }
  std::string bytes(size_t length_max) {
    std::string text(below(length_max + 1), '\0');
    for (char &byte : text) byte = static_cast<char>(below(256));
    return text;
  }

 private:
  std::mt19937_64 engine_;
};

ForeignKeyDef random_foreign_key(Random *random) {
  ForeignKeyDef key;
  key.name = random->bytes(20);
  key.parent_database = random->bytes(20);
  key.parent_table = random->bytes(20);
  for (uint64_t i = 1 + random->below(3); i > 0; --i) {
    key.columns.push_back(random->bytes(9));
    key.parent_columns.push_back(random->bytes(9));
  }
  key.on_delete = static_cast<ReferenceAction>(random->below(5));
  key.on_update = static_cast<ReferenceAction>(random->below(5));
  return key;
}

TableDef random_table(Random *random) {
  TableDef table;
  table.id = static_cast<uint32_t>(random->any());
  table.database = random->bytes(64);
  table.name = random->bytes(64);
  table.family_id = static_cast<uint32_t>(random->any());
  table.prefix = static_cast<uint32_t>(random->any());
  table.own_family = random->coin();
  table.compression = {static_cast<lsm::Algorithm>(random->below(4)),
                       static_cast<int>(random->below(30)) - 5};
  table.compression_explicit = random->coin();
  table.hidden_primary_key = random->coin();
  table.next_column_id = static_cast<uint32_t>(random->any());
  table.next_ordinal = static_cast<uint16_t>(random->any());
  for (uint64_t i = random->below(5); i > 0; --i)
    table.indexes.push_back(
        {random->bytes(20), static_cast<uint16_t>(random->any()), random->coin(), random->coin()});
  for (uint64_t i = random->below(9); i > 0; --i)
    table.column_ids.push_back(static_cast<uint32_t>(random->any()));
  for (uint64_t i = random->below(4); i > 0; --i) {
    SchemaVersion version{static_cast<uint32_t>(random->any()), {}};
    for (uint64_t j = random->below(6); j > 0; --j)
      version.columns.push_back({static_cast<uint32_t>(random->any()),
                                 static_cast<codec::ColumnKind>(random->below(4)),
                                 static_cast<uint32_t>(random->any()), random->coin()});
    table.versions.push_back(version);
  }
  table.frm = random->bytes(300);
  table.par = random->bytes(50);
  table.logical_only = random->coin();
  table.created_us = random->any();
  table.former_name = random->bytes(20);
  for (uint64_t i = random->below(3); i > 0; --i) {
    codec::ColumnDefault value{static_cast<uint32_t>(random->any()), random->coin()};
    value.value = random->bytes(12);
    table.defaults.push_back(value);
  }
  if (random->coin()) table.description = RandomDescription(random->any()).table();
  for (uint64_t i = random->below(4); i > 0 && random->coin(); --i)
    table.foreign_keys.push_back(random_foreign_key(random));
  return table;
}

// Gives a value whose payload was changed the right checksum, so that decode() reads the payload.
std::string reseal(std::string value) {
  const uint32_t crc = crc32c(std::string_view(value).substr(5));
  for (int i = 0; i < 4; ++i) value[1 + i] = static_cast<char>(crc >> (8 * i));
  return value;
}

TEST(Record, crc32c_matches_the_published_check_value) { EXPECT_EQ(crc32c("123456789"), 0xE3069283u); }

TEST(Record, random_tables_survive_the_round_trip) {
  const uint32_t start = seed();
  SCOPED_TRACE("seed " + std::to_string(start));
  Random random(start);
  for (int i = 0; i < 2000; ++i) {
    const TableDef table = random_table(&random);
    TableDef back;
    ASSERT_TRUE(decode(encode(table), &back).ok());
    ASSERT_TRUE(back == table);
  }
}

TEST(Record, every_single_changed_bit_is_refused) {
  const uint32_t start = seed();
  SCOPED_TRACE("seed " + std::to_string(start));
  Random random(start);
  const std::string good = encode(random_table(&random));
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    TableDef table;
    ASSERT_EQ(decode(bad, &table).code(), Code::kCorruption) << "bit " << bit;
  }
}

TEST(Record, every_shorter_or_longer_value_is_refused_even_with_a_right_checksum) {
  Random random(7);
  const std::string good = encode(random_table(&random));
  TableDef table;
  for (size_t length = 0; length < good.size(); ++length) {
    std::string bad = good.substr(0, length);
    if (length >= 5) bad = reseal(bad);
    ASSERT_EQ(decode(bad, &table).code(), Code::kCorruption) << "length " << length;
  }
  EXPECT_EQ(decode(reseal(good + '\0'), &table).code(), Code::kCorruption);
}

// Fuzzed bytes are refused, or the table decoded from them encodes to the same bytes. So decode() ignores no
// byte that it accepts (CAT-4), and encode() loses no field (CAT-7).
TEST(Record, fuzzed_bytes_are_refused_or_mean_exactly_what_they_say) {
  const uint32_t start = seed();
  SCOPED_TRACE("seed " + std::to_string(start));
  Random random(start);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = encode(random_table(&random));
    for (uint64_t i = 1 + random.below(3); i > 0; --i)
      bytes[5 + random.below(bytes.size() - 5)] = static_cast<char>(random.below(256));
    bytes = reseal(bytes);
    TableDef table;
    if (!decode(bytes, &table).ok()) continue;
    ++accepted;
    ASSERT_EQ(encode(table), bytes);
  }
  EXPECT_GT(accepted, 0);
}

TEST(Record, an_unknown_version_is_refused) {
  std::string value = encode_number(5);
  value[0] = 2;
  uint64_t number = 0;
  const Status status = decode_number(value, &number);
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(std::string(status.message()).find("version"), std::string::npos);
}

// The table of both fixtures below. Their bytes are those that earlier versions of Atoll wrote.
TableDef table_of_fixtures() {
  TableDef table;
  table.id = 7;
  table.database = "d";
  table.name = "t";
  table.prefix = 7;
  table.compression = {lsm::Algorithm::kLz4, 3};
  table.next_column_id = 2;
  table.next_ordinal = 2;
  table.indexes = {{"PRIMARY", 1, true, false}};
  table.column_ids = {1};
  table.versions = {{1, {{1, codec::ColumnKind::kFixed, 4, false}}}};
  table.frm = "f";
  table.created_us = 5;
  return table;
}

constexpr std::string_view kFixtureFields =
    "07000000"
    "01000000"
    "64"
    "01000000"
    "74"
    "00000000"
    "07000000"
    "00"
    "01"
    "03000000"
    "00"
    "00"
    "02000000"
    "0200"
    "01000000"
    "07000000"
    "5052494d415259"
    "0100"
    "01"
    "00"
    "01000000"
    "01000000"
    "01000000"
    "01000000"
    "01000000"
    "01000000"
    "00"
    "04000000"
    "00"
    "01000000"
    "66"
    "00000000"
    "00"
    "0500000000000000"
    "00000000";

std::string fixture(char version, std::string_view fields) {
  std::string value(5, '\0');
  value[0] = version;
  for (size_t i = 0; i < fields.size(); i += 2)
    value.push_back(static_cast<char>(std::stoi(std::string(fields.substr(i, 2)), nullptr, 16)));
  return value;
}

TEST(Record, tables_of_all_versions_are_read) {
  const std::string fields(kFixtureFields);
  for (const auto &[version, more] :
       {std::pair<char, const char *>{1, ""}, {2, "00000000"}, {3, "0000000000000000"}}) {
    TableDef table;
    const Status status = decode(reseal(fixture(version, fields + more)), &table);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(table, table_of_fixtures()) << static_cast<int>(version);
    EXPECT_FALSE(table.description.is_known());
  }
}

TEST(Record, an_unknown_extension_is_refused_as_one_of_a_newer_release) {
  const std::string fields = std::string(kFixtureFields) + "00000000";
  TableDef table;
  for (const char *unknown : {"01000000"
                              "03"
                              "00000000",
                              "01000000"
                              "00"
                              "00000000"}) {
    const Status status = decode(reseal(fixture(3, fields + unknown)), &table);
    EXPECT_EQ(status.code(), Code::kCorruption) << unknown;
  }
  const Status newer = decode(reseal(fixture(3, fields + "01000000"
                                                         "03"
                                                         "00000000")),
                              &table);
  EXPECT_NE(std::string(newer.message()).find("newer release"), std::string::npos);
}

TEST(Record, tables_stored_before_columns_had_defaults_are_read) {
  Random random(11);
  for (int round = 0; round < 100; ++round) {
    TableDef table = random_table(&random), back;
    table.defaults.clear();
    table.description = {};
    table.foreign_keys.clear();
    std::string old_value = encode(table);
    // The last 8 bytes are the numbers of defaults and of extensions, which are 0.
    old_value.resize(old_value.size() - 8);
    old_value[0] = 1;
    ASSERT_TRUE(decode(reseal(old_value), &back).ok());
    ASSERT_TRUE(back == table);
  }
}

TEST(Record, small_records_survive_the_round_trip) {
  Meta meta;
  ASSERT_TRUE(decode(encode(Meta{77, 88}), &meta).ok());
  EXPECT_EQ(meta, (Meta{77, 88}));
  uint64_t number = 0;
  ASSERT_TRUE(decode_number(encode_number(UINT64_MAX), &number).ok());
  EXPECT_EQ(number, UINT64_MAX);
  std::string blob;
  ASSERT_TRUE(decode_blob(encode_blob(std::string("a\0b", 3)), &blob).ok());
  EXPECT_EQ(blob, std::string("a\0b", 3));
  Doomed doomed{9, {{1, "a", "b"}, {2, std::string("\0", 1), ""}}}, back{9, {}};
  ASSERT_TRUE(decode(encode(doomed), &back).ok());
  EXPECT_EQ(back, doomed);
}

TEST(Record, keys_survive_the_round_trip_and_odd_ones_are_refused) {
  uint32_t id = 0;
  ASSERT_TRUE(parse_table_key(table_key(RecordKind::kTable, 0x01020304), &id).ok());
  EXPECT_EQ(id, 0x01020304u);
  EXPECT_EQ(parse_table_key("T123", &id).code(), Code::kCorruption);
  uint64_t number = 0;
  ASSERT_TRUE(parse_doomed_key(doomed_key(1ULL << 60), &number).ok());
  EXPECT_EQ(number, 1ULL << 60);
  EXPECT_EQ(parse_doomed_key("X", &number).code(), Code::kCorruption);
  std::string database, file;
  ASSERT_TRUE(parse_side_file_key(side_file_key("d", "t.TRG"), &database, &file).ok());
  EXPECT_EQ(database + "|" + file, "d|t.TRG");
  for (const char *odd : {"F", "Fx", "F/x", "Fx/"})
    EXPECT_FALSE(parse_side_file_key(odd, &database, &file).ok()) << odd;
}

TEST(TableDef, the_numbers_of_indexes_end) {
  TableDef table;
  EXPECT_TRUE(table.has_ordinals(66));
  table.next_ordinal = UINT16_MAX - 67;
  EXPECT_TRUE(table.has_ordinals(66));
  table.next_ordinal = UINT16_MAX - 66;
  EXPECT_FALSE(table.has_ordinals(66));
}

TEST(Record, an_index_range_covers_its_keys_and_no_neighbours) {
  TableDef table;
  table.family_id = 3;
  table.prefix = 7;
  const Doomed::Range last = index_range(table, 0xFFFF);
  EXPECT_EQ(last.begin, std::string("\0\0\0\7\xFF\xFF", 6));
  EXPECT_EQ(last.end, std::string("\0\0\0\x08\0\0", 6));
  const Doomed::Range whole = table_range(table);
  EXPECT_EQ(whole.begin, std::string("\0\0\0\7", 4));
  EXPECT_EQ(whole.end, std::string("\0\0\0\x08", 4));
  EXPECT_LT(index_range(table, 1).begin, index_range(table, 1).end);
  EXPECT_EQ(index_range(table, 1).end, index_range(table, 2).begin);
}

}  // namespace
}  // namespace atoll::catalog
