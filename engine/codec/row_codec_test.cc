// Goal:   unpacking gives the same row that was packed, for all kinds of columns and for rows of older schema
//         versions. The codec never reads outside the stored bytes, whatever they are.
// Method: random tables and records from a printed seed (ATOLL_TEST_SEED repeats it). Expected bytes of one
//         row. Every truncation and random bit flips of rows, in memory of exactly the row's size, so that
//         the address sanitizer notices a read outside.
#include "codec/row_codec.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "codec/test_tables.h"

namespace atoll::codec::testing {
namespace {

Column random_column(Random &random) {
  switch (random.below(6)) {
    case 0:
      return fixed(static_cast<uint32_t>(1 + random.below(12)));
    case 1:
      return varchar(static_cast<uint32_t>(random.below(300)));
    case 2:
      return padded_char(static_cast<uint32_t>(random.below(30)));
    case 3:
      return blob(static_cast<uint8_t>(1 + random.below(4)));
    case 4:
      return fixed(4);
    default:
      return fixed(8);
  }
}

std::string random_value(Random &random, const Column &column) {
  if (column.kind == ColumnKind::kFixed) {
    std::string bytes(column.length, '\0');
    for (char &c : bytes) c = static_cast<char>(random.bits());
    return bytes;
  }
  if (column.kind != ColumnKind::kBlob) return random.text(column.length, "ab \0x");
  const size_t longest = column.length_bytes == 1 ? 255
                         : random.one_in(20)      ? (column.length_bytes == 2 ? 65535 : 90000)
                                                  : 50;
  return std::string(random.below(longest + 1), 'b');
}

Record random_record(Random &random, const Table &table) {
  Record record(table, static_cast<uint8_t>(random.bits()));
  for (const Column &column : table.columns()) {
    if (column.null_offset >= 0 && random.one_in(3))
      record.set_null_value(column);
    else
      record.set(column, random_value(random, column));
  }
  return record;
}

Table random_table(Random &random) {
  Table table;
  for (size_t left = random.below(30); left > 0; --left) table.add(random_column(random), random.one_in(2));
  return table;
}

RowCodec codec_for(const Table &table, uint32_t version = 1) { return RowCodec(version, table.columns()); }

std::string packed(const RowCodec &codec, const Record &record) {
  std::string bytes;
  codec.pack(record.data(), &bytes);
  return bytes;
}

TEST(RowCodec, random_rows_come_back_as_they_went_in) {
  Random random(seed_of_this_run());
  for (int round = 0; round < 2000; ++round) {
    const Table table = random_table(random);
    const RowCodec codec = codec_for(table, random.one_in(2) ? 1 : static_cast<uint32_t>(random.bits()));
    const Record record = random_record(random, table);
    const ExactCopy bytes(packed(codec, record));
    Record read(table, 0x5A);
    ASSERT_TRUE(codec.unpack(bytes.view(), nullptr, read.data()).ok());
    for (size_t i = 0; i < table.columns().size(); ++i) {
      const Column &column = table.columns()[i];
      ASSERT_EQ(shown(column, record.data()), shown(column, read.data())) << "column " << i;
      PackedValue value;
      ASSERT_TRUE(codec.find(bytes.view(), i, &value).ok());
      ASSERT_EQ(shown(column, record.data()), value.present ? "'" + std::string(value.bytes) + "'" : "NULL");
    }
  }
}

TEST(RowCodec, unwanted_columns_keep_what_the_record_holds) {
  Random random(seed_of_this_run());
  for (int round = 0; round < 500; ++round) {
    const Table table = random_table(random);
    const RowCodec codec = codec_for(table);
    const Record record = random_record(random, table), before = random_record(random, table);
    std::vector<uint32_t> wanted;
    for (uint32_t i = 0; i < table.columns().size(); ++i)
      if (random.one_in(2)) wanted.push_back(i);
    const std::string bytes = packed(codec, record);
    Record read = before;
    ASSERT_TRUE(codec.unpack(bytes, &wanted, read.data()).ok());
    for (uint32_t i = 0; i < table.columns().size(); ++i) {
      const Column &column = table.columns()[i];
      const bool is_wanted = std::find(wanted.begin(), wanted.end(), i) != wanted.end();
      ASSERT_EQ(shown(column, (is_wanted ? record : before).data()), shown(column, read.data()));
    }
  }
}

TEST(RowCodec, packed_bytes_are_those_of_table_R1) {
  Table table;
  const Column id = table.add(fixed(4), false), flag = table.add(fixed(1), true);
  const Column name = table.add(varchar(10), true), code = table.add(padded_char(5), false);
  Record record(table);
  record.set(id, std::string("\x04\x03\x02\x01", 4));
  record.set_null_value(flag);
  record.set(name, "abc");
  record.set(code, "x ");
  const std::string expected(
      "\x00\xAC\x02"
      "\x01"
      "\x04\x03\x02\x01"
      "\x00"
      "\x03\x00\x04\x00"
      "abcx",
      17);
  EXPECT_EQ(expected, packed(codec_for(table, 300), record));
}

TEST(RowCodec, wide_offsets_are_used_only_beyond_64_kib) {
  Table table;
  const Column text = table.add(blob(3), false);
  for (const size_t length : {size_t{65535}, size_t{65536}}) {
    Record record(table);
    record.set(text, std::string(length, 'z'));
    const std::string bytes = packed(codec_for(table), record);
    EXPECT_EQ(length > 65535 ? 1 : 0, bytes[0]);
    EXPECT_EQ(2 + (length > 65535 ? 4 : 2) + length, bytes.size());
    Record read(table);
    ASSERT_TRUE(codec_for(table).unpack(bytes, nullptr, read.data()).ok());
    EXPECT_EQ(shown(text, record.data()), shown(text, read.data()));
  }
}

TEST(RowCodec, null_columns_leave_no_trace_of_old_values) {
  Table table;
  const Column a = table.add(fixed(4), true), b = table.add(varchar(20), true),
               c = table.add(padded_char(9), true);
  const Column d = table.add(blob(2), true);
  const RowCodec codec = codec_for(table);
  // The fields of `first` are filled with 0xFF, also the pointer of the blob. The blob is NULL, so the codec
  // must not read what the pointer points to.
  Record first(table, 0xFF), second(table, 0x00);
  for (Record *record : {&first, &second})
    for (const Column &column : {a, b, c, d}) record->set_null_value(column);
  EXPECT_EQ(packed(codec, first), packed(codec, second));
}

TEST(RowCodec, null_columns_come_back_with_the_bytes_the_server_expects) {
  Table table;
  Column wanted = fixed(4);
  wanted.null_bytes = std::string("\x80\0\0\0", 4);
  const Column a = table.add(wanted, true);
  Record record(table, 0);
  record.set_null_value(a);
  const RowCodec codec = codec_for(table);
  Record back(table, 0xFF);
  ASSERT_TRUE(codec.unpack(packed(codec, record), nullptr, back.data()).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(back.data()) + a.record_offset, 4), wanted.null_bytes);

  // A NULL default gives these bytes as well, in a row that is older than the column.
  RowCodec later(2, table.columns(), {ColumnDefault{a.id}});
  later.add_past_version(1, {});
  const RowCodec earlier(1, {});
  Record older(table, 0xFF);
  ASSERT_TRUE(later.unpack(packed(earlier, record), nullptr, older.data()).ok());
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(older.data()) + a.record_offset, 4),
            wanted.null_bytes);
}

// Writes a row with an older schema version of the table and reads it with the newer one.
TEST(RowCodec, rows_of_past_versions_get_defaults_for_what_they_lack) {
  Random random(seed_of_this_run());
  for (int round = 0; round < 1000; ++round) {
    const Table now = random_table(random);
    Record defaults(now, 0);
    std::vector<ColumnDefault> values;
    for (const Column &c : now.columns()) {
      if (c.null_offset >= 0 && random.one_in(2)) {
        defaults.set_null_value(c);
        values.push_back({c.id});
      } else {
        defaults.set(c, random_value(random, c));
        values.push_back({c.id, false, std::string(column_bytes(c, defaults.data()))});
      }
    }
    RowCodec codec(7, now.columns(), values);

    // The older form of the table: some of the columns in another order, and some that have been dropped
    // since.
    std::vector<Column> past_columns;
    for (const Column &c : now.columns())
      if (!random.one_in(3)) past_columns.push_back(c);
    for (size_t dropped = random.below(4); dropped > 0; --dropped) {
      past_columns.push_back(random_column(random));
      past_columns.back().id = 1000 + static_cast<uint32_t>(dropped);
    }
    std::shuffle(past_columns.begin(), past_columns.end(), std::mt19937_64(random.bits()));
    Table past;
    std::vector<PastColumn> known;
    std::vector<Column> placed;
    for (const Column &c : past_columns) {
      Column column = c;
      column.null_offset = -1;
      const bool nullable = c.null_offset >= 0 ? !random.one_in(3) : false;
      column = past.add(column, nullable);
      column.id = c.id;
      placed.push_back(column);
      known.push_back({c.id, c.kind, c.length, nullable});
    }
    const RowCodec writer(3, placed);
    codec.add_past_version(5, {});
    codec.add_past_version(3, known);

    Record old_row(past, 0);
    for (const Column &c : placed) {
      if (c.null_offset >= 0 && random.one_in(3))
        old_row.set_null_value(c);
      else
        old_row.set(c, random_value(random, c));
    }
    const ExactCopy bytes(packed(writer, old_row));
    Record read(now, 0x5A);
    ASSERT_TRUE(codec.unpack(bytes.view(), nullptr, read.data()).ok());
    for (size_t i = 0; i < now.columns().size(); ++i) {
      const Column &column = now.columns()[i];
      std::string expected = shown(column, defaults.data());
      for (const Column &c : placed)
        if (c.id == column.id) expected = shown(c, old_row.data());
      ASSERT_EQ(expected, shown(column, read.data()));
      PackedValue value;
      ASSERT_TRUE(codec.find(bytes.view(), i, &value).ok());
      ASSERT_EQ(expected, value.present ? "'" + std::string(value.bytes) + "'" : "NULL");
    }
  }
}

TEST(RowCodec, unknown_versions_and_changed_forms_are_errors) {
  Table table;
  const Column id = table.add(fixed(4), false);
  Record record(table);
  record.set(id, "abcd");
  RowCodec codec = codec_for(table, 2);
  const std::string old_row = packed(codec_for(table, 1), record);
  PackedValue value;
  EXPECT_EQ(Code::kCorruption, codec.find(old_row, 0, &value).code());
  codec.add_past_version(1, {{id.id, ColumnKind::kFixed, 8, false}});
  EXPECT_EQ(Code::kCorruption, codec.unpack(old_row, nullptr, record.data()).code());
  codec.add_past_version(1, {{id.id, ColumnKind::kFixed, 3, false}, {99, ColumnKind::kFixed, 1, false}});
  EXPECT_EQ(Code::kBug, codec.unpack(old_row, nullptr, record.data()).code());
  codec.add_past_version(1, {{98, ColumnKind::kFixed, 4, false}});  // a column without a known default
  EXPECT_EQ(Code::kBug, codec.unpack(old_row, nullptr, record.data()).code());
  EXPECT_EQ(Code::kBug, codec.find(old_row, 0, &value).code());
}

// An instant ALTER makes a column of variable length longer, or turns it into a blob.
TEST(RowCodec, rows_written_before_a_column_grew_are_read_with_its_new_form) {
  Table before, after;
  const Column code = before.add(padded_char(4), true), name = before.add(varchar(9), false);
  const Column text = before.add(blob(1), true);
  const Column longer_code = after.add(padded_char(300), true), long_name = after.add(blob(2), true);
  const Column longer_text = after.add(blob(4), true);
  Record old_row(before), read(after);
  old_row.set(code, "ab");
  old_row.set(name, "a name");
  old_row.set(text, "some text");
  RowCodec codec = codec_for(after, 2);
  codec.add_past_version(1, {{1, ColumnKind::kChar, 4, true},
                             {2, ColumnKind::kVarchar, 9, false},
                             {3, ColumnKind::kBlob, 0xFFFFFFFF, true}});
  const std::string bytes = packed(codec_for(before, 1), old_row);
  ASSERT_TRUE(codec.unpack(bytes, nullptr, read.data()).ok());
  EXPECT_EQ("'ab'", shown(longer_code, read.data()));
  EXPECT_EQ("'a name'", shown(long_name, read.data()));
  EXPECT_EQ("'some text'", shown(longer_text, read.data()));
}

TEST(RowCodec, every_truncation_is_found) {
  Random random(seed_of_this_run());
  for (int round = 0; round < 100; ++round) {
    const Table table = random_table(random);
    const RowCodec codec = codec_for(table);
    const std::string bytes = packed(codec, random_record(random, table));
    for (size_t length = 0; length < std::min<size_t>(bytes.size(), 3000); ++length) {
      const ExactCopy cut(std::string_view(bytes).substr(0, length));
      Record read(table);
      ASSERT_EQ(Code::kCorruption, codec.unpack(cut.view(), nullptr, read.data()).code());
    }
  }
}

TEST(RowCodec, flipped_bits_never_lead_outside_the_row) {
  Random random(seed_of_this_run());
  size_t refused = 0;
  for (int round = 0; round < 5000; ++round) {
    const Table table = random_table(random);
    RowCodec codec = codec_for(table);
    codec.add_past_version(0, {{1, ColumnKind::kVarchar, 9, true}, {2, ColumnKind::kVarchar, 9, true}});
    std::string bytes = packed(codec, random_record(random, table));
    for (size_t flips = 1 + random.below(4); flips > 0; --flips)
      bytes[random.below(std::min<size_t>(bytes.size(), 80))] ^= static_cast<char>(1 << random.below(8));
    const ExactCopy copy(bytes);
    Record read(table);
    if (!codec.unpack(copy.view(), nullptr, read.data()).ok()) ++refused;
    for (size_t i = 0; i < table.columns().size(); ++i) {
      PackedValue value;
      if (!codec.find(copy.view(), i, &value).ok() || !value.present) continue;
      if (table.columns()[i].kind == ColumnKind::kBlob) (void)std::string(value.bytes);
    }
  }
  EXPECT_GT(refused, 100u);
}

}  // namespace
}  // namespace atoll::codec::testing
