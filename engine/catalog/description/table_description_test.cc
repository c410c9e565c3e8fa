// Goal:   a description survives the way to bytes and back, an impossible one is refused, and every
// difference
//         between two descriptions is named with both sides. Catalog::describe() adds a description only to
//         an entry that has none, and keeps what the entry has got meanwhile.
// Method: random descriptions, each changed in one place; a catalog over a database of its own.
#include "catalog/description/table_description.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>

#include "base/bytes.h"
#include "catalog/catalog_fixture.h"
#include "catalog/description/description_record.h"
#include "catalog/description/test_descriptions.h"

namespace atoll::catalog {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

uint64_t seed() {
  const char *given = std::getenv("ATOLL_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("ATOLL_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

ColumnDescription varchar(const char *name, uint32_t characters) {
  ColumnDescription column;
  column.name = name;
  column.type = SqlType::kVarchar;
  column.length = characters * 4;
  column.length_bytes = 1;
  column.record_bytes = column.length + 1;
  column.charset = {"utf8mb4", "utf8mb4_general_ci", 45, 1, 4};
  return column;
}

ColumnDescription integer(const char *name) {
  ColumnDescription column;
  column.name = name;
  column.length = 11;
  column.record_bytes = 4;
  column.nullable = true;
  return column;
}

TableDescription orders() {
  TableDescription table;
  table.server_version = 101118;
  table.columns = {integer("id"), varchar("name", 20)};
  table.keys = {{"PRIMARY", true, false, {{0, 0, false}}},
                {"n", false, false, {{1, 40, true}, {0, 0, false}}}};
  table.primary = 0;
  return table;
}

TEST(TableDescription, random_ones_survive_the_round_trip) {
  RandomDescription random(seed());
  for (int i = 0; i < 2000; ++i) {
    const TableDescription table = random.table();
    ASSERT_TRUE(check(table).ok()) << check(table).message();
    TableDescription back;
    ASSERT_TRUE(decode(encode(table), &back).ok());
    ASSERT_TRUE(back == table);
    ASSERT_EQ(difference(table, back), "");
  }
}

TEST(TableDescription, fuzzed_bytes_are_refused_or_mean_exactly_what_they_say) {
  RandomDescription random(seed());
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = encode(random.table());
    for (uint64_t left = random.below(3); left > 0; --left)
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    TableDescription table;
    if (!decode(bytes, &table).ok()) continue;
    ++accepted;
    ASSERT_TRUE(check(table).ok());
    ASSERT_EQ(encode(table), bytes);
  }
  EXPECT_GT(accepted, 0);
}

TEST(TableDescription, every_shorter_or_longer_one_is_refused) {
  const std::string good = encode(orders());
  TableDescription table;
  for (size_t length = 0; length < good.size(); ++length)
    ASSERT_EQ(decode(good.substr(0, length), &table).code(), Code::kCorruption) << length;
  EXPECT_EQ(decode(good + '\0', &table).code(), Code::kCorruption);
}

// The bytes were made by another program after FMT-C6 of docs/internals/formats-catalog.md.
TEST(TableDescription, the_stored_bytes_are_those_of_the_document) {
  const std::string stored =
      "fe8a0100"  // server 101118
      "0000"      // the first key is the primary one
      "02000000"  // columns
      "02000000"
      "6964"
      "03"
      "00000000"
      "0b000000"
      "00"
      "04000000"
      "00"  // id int(11)
      "01000000"
      "00"
      "00"
      "00000000"
      "00000000"
      "00000000"
      "00"
      "00"
      "04000000"
      "6e616d65"
      "13"
      "00000000"
      "50000000"
      "00"
      "51000000"
      "01"  // name varchar(20)
      "00000000"
      "00"
      "00"
      "07000000"
      "757466386d6234"
      "12000000"
      "757466386d62345f67656e6572616c5f6369"
      "2d000000"
      "01"
      "04"
      "02000000"  // keys
      "07000000"
      "5052494d415259"
      "01"
      "00"
      "01000000"
      "0000"
      "00000000"
      "00"
      "01000000"
      "6e"
      "00"
      "00"
      "02000000"
      "0100"
      "28000000"
      "01"
      "0000"
      "00000000"
      "00";
  EXPECT_EQ(to_hex(encode(orders()), "0123456789abcdef"), stored);
}

TEST(TableDescription, impossible_ones_are_refused_by_name) {
  const auto refused = [](auto &&change) {
    TableDescription table = orders();
    change(&table);
    return std::string(check(table).message());
  };
  EXPECT_THAT(refused([](auto *table) { table->columns.clear(); }), HasSubstr("without columns"));
  EXPECT_THAT(refused([](auto *table) { table->columns[0].record_bytes = 8; }), HasSubstr("column id"));
  EXPECT_THAT(refused([](auto *table) { table->columns[1].length_bytes = 3; }), HasSubstr("column name"));
  EXPECT_THAT(refused([](auto *table) { table->columns[1].charset.bytes_max = 0; }),
              HasSubstr("column name"));
  EXPECT_THAT(refused([](auto *table) { table->columns[0].charset.name = "latin1"; }),
              HasSubstr("column id"));
  EXPECT_THAT(refused([](auto *table) { table->keys[1].parts[0].column = 2; }), HasSubstr("key n"));
  EXPECT_THAT(refused([](auto *table) { table->keys[1].parts[1].prefix_bytes = 2; }), HasSubstr("key n"));
  EXPECT_THAT(refused([](auto *table) { table->keys[0].parts.clear(); }), HasSubstr("key PRIMARY"));
  EXPECT_THAT(refused([](auto *table) { table->primary = 2; }), HasSubstr("primary key"));
  EXPECT_EQ(refused([](auto *) {}), "");
}

TEST(TableDescription, a_difference_names_the_column_and_both_sides) {
  const auto told = [](auto &&change) {
    TableDescription table = orders();
    change(&table);
    return difference(orders(), table);
  };
  EXPECT_THAT(told([](auto *table) { table->columns[1] = varchar("name", 30); }),
              AllOf(HasSubstr("column name"), HasSubstr("varchar(20)"), HasSubstr("varchar(30)")));
  EXPECT_THAT(told([](auto *table) { table->columns[1].charset.id = 46; }),
              AllOf(HasSubstr("column name"), HasSubstr("collation 45"), HasSubstr("collation 46")));
  EXPECT_THAT(told([](auto *table) { table->columns[0].name = "number"; }),
              AllOf(HasSubstr("id"), HasSubstr("number")));
  EXPECT_THAT(told([](auto *table) { table->columns.push_back(integer("more")); }), HasSubstr("more"));
  EXPECT_THAT(told([](auto *table) { table->columns.pop_back(); }), HasSubstr("name"));
  EXPECT_THAT(told([](auto *table) { table->keys[1].parts[0].descending = false; }),
              AllOf(HasSubstr("key n"), HasSubstr("(name(10) DESC, id)"), HasSubstr("(name(10), id)")));
  EXPECT_THAT(told([](auto *table) { table->keys[1].name = "other"; }), HasSubstr("lacks the key n"));
  EXPECT_THAT(told([](auto *table) { std::swap(table->keys[0], table->keys[1]); }), HasSubstr("order"));
  EXPECT_THAT(told([](auto *table) { table->primary = kNoPrimaryKey; }), HasSubstr("primary key"));
  EXPECT_EQ(told([](auto *table) { table->server_version = 110809; }), "");
}

TEST(TableDescription, changes_are_told_by_name) {
  TableDescription after = orders();
  after.columns[0].type = SqlType::kBigInt;
  after.columns[0].length = 20;
  after.columns[1] = varchar("title", 20);
  after.keys.pop_back();
  EXPECT_EQ(
      changes(orders(), after),
      "id: int(11) -> bigint(20); + title varchar(20) COLLATE utf8mb4_general_ci NOT NULL; - name; - n");
  EXPECT_EQ(changes(orders(), orders()), "");
  EXPECT_EQ(changes(TableDescription(), orders()), "");
}

TEST(TableDescription, types_are_shown_as_sql_has_them) {
  ColumnDescription column = integer("c");
  const auto text = [&column](SqlType type, uint32_t length, uint8_t decimals = 0) {
    column.type = type;
    column.length = length;
    column.decimals = decimals;
    return text_of(column);
  };
  EXPECT_EQ(text(SqlType::kDecimal, 12, 2), "decimal(10,2)");
  EXPECT_EQ(text(SqlType::kDecimal, 11, 0), "decimal(10,0)");
  EXPECT_EQ(text(SqlType::kDouble, 22, 31), "double");
  EXPECT_EQ(text(SqlType::kDateTime, 26, 6), "datetime(6)");
  column.charset = {"binary", "binary", 63, 1, 1};
  EXPECT_EQ(text(SqlType::kLongBlob, 0), "longblob");
  EXPECT_EQ(text(SqlType::kChar, 16), "binary(16)");
  column.charset = {"latin1", "latin1_bin", 47, 1, 1};
  EXPECT_EQ(text(SqlType::kBlob, 65535), "text COLLATE latin1_bin");
  EXPECT_EQ(version_text(101118), "10.11.18");
}

TEST_F(CatalogTest, an_old_entry_is_described_once_and_keeps_what_it_got_meanwhile) {
  const TableDef table = create("old");
  TableDef building = table;
  building.indexes.push_back({"new", 4, false, true});
  ASSERT_TRUE(catalog_->update(building).ok());
  TablePtr described;
  ASSERT_TRUE(catalog_->describe(table.id, orders(), &described).ok());
  EXPECT_EQ(described->description, orders());
  EXPECT_EQ(described->indexes.size(), building.indexes.size());

  TableDescription other = orders();
  other.columns[0].name = "other";
  ASSERT_TRUE(catalog_->describe(table.id, other, &described).ok());
  EXPECT_EQ(described->description, orders());
  EXPECT_EQ(catalog_->describe(1000, orders(), &described).code(), Code::kNotFound);
  EXPECT_EQ(catalog_->describe(table.id, TableDescription(), &described).code(), Code::kBug);
  reopen();
  EXPECT_EQ(catalog_->find(table.id)->description, orders());
}

TEST_F(CatalogTest, a_table_that_becomes_a_partition_is_described_anew) {
  TableDef table = create("t");
  TablePtr described;
  ASSERT_TRUE(catalog_->describe(table.id, orders(), &described).ok());
  ASSERT_TRUE(catalog_->rename("d", "t", "d", "renamed").ok());
  EXPECT_TRUE(catalog_->find(table.id)->description.is_known());
  ASSERT_TRUE(catalog_->rename("d", "renamed", "d", "whole#P#p0").ok());
  EXPECT_FALSE(catalog_->find(table.id)->description.is_known());
}

}  // namespace
}  // namespace atoll::catalog
