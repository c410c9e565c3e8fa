// Goal:   KEY-1: memcmp of keys is SQL order for every kind of part. Keys give the column values back. The
//         codec never reads outside the stored bytes, whatever they are.
// Method: random indexes and records from a printed seed; their key order must equal an order computed on the
//         values. Expected bytes for the tables FMT-K2 to FMT-K5. Every truncation and random bit flips of
//         keys, in memory of exactly their size, so that the address sanitizer notices a read outside.
#include "codec/key_codec.h"

#include <gtest/gtest.h>

#include "codec/key_parts.h"
#include "codec/test_indexes.h"

namespace atoll::codec::testing {
namespace {

std::string key_of(const KeyCodec &codec, const Record &record) {
  std::string key;
  codec.append_parts(record.data(), codec.part_count(), &key, nullptr);
  return key;
}

std::string hex(std::string_view bytes) {
  std::string text;
  char digits[3];
  for (uint8_t byte : bytes) text.append(digits, static_cast<size_t>(std::snprintf(digits, 3, "%02x", byte)));
  return text;
}

// Returns a record that differs from `record` in at most one column, so that most of the two keys is equal.
Record neighbour(Random &random, const Index &index, const Record &record) {
  Record next = record;
  const KeyPart &part = index.parts[random.below(index.parts.size())];
  if (part.source.null_offset >= 0 && random.one_in(6)) {
    next.set_null_value(part.source);
    return next;
  }
  std::string value = is_null(part.source, record.data())
                          ? random_value(random, part)
                          : std::string(column_bytes(part.source, record.data()));
  const size_t length_max = std::min<size_t>(part.source.length, 300);
  if (part.source.kind != ColumnKind::kFixed && value.size() < length_max && random.one_in(2))
    value += random.one_in(2) ? ' ' : "\x01\ta\xFF"[random.below(4)];
  else if (part.kind == KeyKind::kFloat || part.kind == KeyKind::kDouble)
    value = random_value(random, part);
  else if (!value.empty())
    value[random.below(value.size())] = std::string_view("\0 aA\t", 5)[random.below(5)];
  next.set(part.source, value);
  return next;
}

TEST(KeyCodec, memcmp_of_keys_is_sql_order) {
  Random random(seed_of_this_run());
  size_t equal = 0, unequal = 0;
  for (int round = 0; round < 4000; ++round) {
    const Index index = random_index(random);
    const KeyCodec codec(1, index.parts, index.parts.size());
    std::vector<Record> records;
    for (int i = 0; i < 4; ++i) records.push_back(random_record(random, index));
    for (int i = 0; i < 8; ++i)
      records.push_back(neighbour(random, index, records[random.below(records.size())]));
    for (const Record &a : records) {
      for (const Record &b : records) {
        const int expected = order_of_records(index, a, b);
        const std::string key_a = key_of(codec, a), key_b = key_of(codec, b);
        ASSERT_EQ(expected, sign(key_a.compare(key_b))) << hex(key_a) << "\n" << hex(key_b);
        ++(expected == 0 ? equal : unequal);
        // No key is the beginning of a different key. Otherwise a search for one key would find entries of
        // the other one.
        ASSERT_TRUE(expected == 0 || !key_a.starts_with(key_b));
      }
    }
  }
  // 4,000 rounds with 12 records each have 48,000 pairs of a record with itself. So there were equal keys of
  // different records, too.
  EXPECT_GT(equal, 48000u);
  EXPECT_GT(unequal, 48000u);
}

TEST(KeyCodec, parts_are_skipped_exactly) {
  Random random(seed_of_this_run());
  for (int round = 0; round < 3000; ++round) {
    const Index index = random_index(random);
    const KeyCodec codec(1, index.parts, index.parts.size());
    const Record record = random_record(random, index);
    const std::string key = key_of(codec, record);
    std::string so_far;
    for (size_t count = 0; count <= index.parts.size(); ++count) {
      size_t bytes = 12345;
      ASSERT_TRUE(codec.skip_parts(key, count, &bytes).ok());
      ASSERT_EQ(so_far.size(), bytes);
      if (count < index.parts.size()) codec.append_part(record.data(), count, &so_far, nullptr);
    }
    ASSERT_EQ(key, so_far);
  }
}

// The column value that a covering read gives: a float zero has lost its sign, everything else is exact.
std::string covered(const KeyPart &part, const uint8_t *record) {
  if (is_null(part.source, record)) return "NULL";
  const std::string_view bytes = column_bytes(part.source, record);
  if (part.kind == KeyKind::kDouble && load_le<double>(bytes.data()) == 0)
    return "'" + std::string(8, '\0') + "'";
  if (part.kind == KeyKind::kFloat && load_le<float>(bytes.data()) == 0)
    return "'" + std::string(4, '\0') + "'";
  return shown(part.source, record);
}

TEST(KeyCodec, columns_come_back_from_key_and_unpack_section) {
  Random random(seed_of_this_run());
  for (int round = 0; round < 6000; ++round) {
    const Index index = random_index(random);
    const KeyCodec codec(1, index.parts, index.parts.size());
    const Record record = random_record(random, index), before = random_record(random, index);
    std::string unpack;
    codec.append_unpack(record.data(), &unpack);
    const ExactCopy key(key_of(codec, record)), section(unpack);
    Record read = before;
    ASSERT_TRUE(codec.decode(key.view(), section.view(), read.data()).ok()) << hex(key.view());
    for (size_t i = 0; i < index.parts.size(); ++i) {
      const KeyPart &part = index.parts[i];
      const bool prefix = part.prefix_length != 0 || part.prefix_characters != 0;
      ASSERT_EQ(!prefix, codec.decodable(i));
      if (prefix)
        ASSERT_EQ(shown(part.source, before.data()), shown(part.source, read.data()));
      else
        ASSERT_EQ(covered(part, record.data()), shown(part.source, read.data())) << hex(key.view());
    }
  }
}

TEST(KeyCodec, bad_keys_never_lead_outside_their_bytes) {
  Random random(seed_of_this_run());
  size_t refused = 0;
  for (int round = 0; round < 5000; ++round) {
    const Index index = random_index(random);
    const KeyCodec codec(1, index.parts, index.parts.size());
    const Record record = random_record(random, index);
    std::string key = key_of(codec, record), unpack;
    codec.append_unpack(record.data(), &unpack);
    for (std::string *bytes : {&key, &unpack}) {
      if (bytes->empty()) continue;
      if (random.one_in(3)) bytes->resize(random.below(bytes->size()));
      for (size_t flips = random.below(4); flips > 0 && !bytes->empty(); --flips)
        (*bytes)[random.below(bytes->size())] ^= static_cast<char>(1 << random.below(8));
    }
    const ExactCopy key_copy(key), unpack_copy(unpack);
    Record read(index.table);
    if (!codec.decode(key_copy.view(), unpack_copy.view(), read.data()).ok()) ++refused;
    size_t bytes = 0;
    const bool skipped = codec.skip_parts(key_copy.view(), index.parts.size(), &bytes).ok();
    ASSERT_TRUE(!skipped || bytes <= key.size());
  }
  EXPECT_GT(refused, 500u);
}

TEST(KeyCodec, every_truncation_of_a_key_is_found) {
  Random random(seed_of_this_run());
  for (int round = 0; round < 500; ++round) {
    const Index index = random_index(random);
    const KeyCodec codec(1, index.parts, index.parts.size());
    const Record record = random_record(random, index);
    std::string key = key_of(codec, record), unpack;
    codec.append_unpack(record.data(), &unpack);
    for (size_t length = 0; length < key.size(); ++length) {
      const ExactCopy cut(std::string_view(key).substr(0, length));
      Record read(index.table);
      size_t bytes = 0;
      ASSERT_EQ(Code::kCorruption, codec.skip_parts(cut.view(), index.parts.size(), &bytes).code());
      ASSERT_EQ(Code::kCorruption, codec.decode(cut.view(), unpack, read.data()).code());
    }
  }
}

// --- Tests of single encodings -----------------------------------------------------------------------

std::string text_key(const Collation &collation, std::string_view text, bool descending = false) {
  Table table;
  const Column column = table.add(varchar(300), false);
  const KeyCodec codec(1,
                       {{.kind = KeyKind::kText,
                         .source = column,
                         .descending = descending,
                         .collation = &collation,
                         .characters_max = 300}},
                       1);
  Record record(table);
  record.set(column, text);
  return key_of(codec, record);
}

TEST(KeyCodec, trailing_spaces_do_not_count_under_pad_space) {
  for (const auto &collation : toy_collations()) {
    if (!collation->pad_space()) continue;
    EXPECT_EQ(text_key(*collation, "a"), text_key(*collation, "a   "));
    EXPECT_EQ(text_key(*collation, ""), text_key(*collation, "           "));
    EXPECT_LT(text_key(*collation, "a\t"), text_key(*collation, "a"));
    EXPECT_LT(text_key(*collation, "aaaaaaaa\t"), text_key(*collation, "aaaaaaaa"));
    EXPECT_LT(text_key(*collation, "aaaaaaaa"), text_key(*collation, "aaaaaaaa b"));
    EXPECT_LT(text_key(*collation, std::string(40, ' ') + "\t"), text_key(*collation, ""));
  }
}

TEST(KeyCodec, trailing_spaces_count_without_padding) {
  for (const auto &collation : toy_collations()) {
    if (collation->pad_space()) continue;
    EXPECT_LT(text_key(*collation, "a"), text_key(*collation, "a "));
    EXPECT_LT(text_key(*collation, "a"), text_key(*collation, "a\t"));
  }
}

// The case is CHAR under NO PAD. For LIKE 'a%' the server searches from "a" followed by the smallest
// characters. The key of "a" must be greater than that, because spaces follow the value "a".
TEST(KeyCodec, char_columns_compare_with_their_spaces_under_no_pad) {
  for (const auto &collation : toy_collations()) {
    const auto key = [&collation](std::string_view text, uint32_t prefix) {
      Table table;
      const Column column = table.add(padded_char(10), false);
      const KeyCodec codec(1,
                           {{.kind = KeyKind::kText,
                             .source = column,
                             .prefix_characters = prefix,
                             .collation = collation.get(),
                             .filled_with_spaces = true,
                             .characters_max = prefix ? prefix : 10}},
                           1);
      Record record(table);
      record.set(column, text);
      return key_of(codec, record);
    };
    EXPECT_LT(key("a\t", 0), key("a", 0));
    EXPECT_LT(key("a", 0), key("a b", 0));
    EXPECT_EQ(key("a", 4), key("a    b", 4));
  }
}

TEST(KeyCodec, text_bytes_are_those_of_tables_K4_and_K5) {
  const ToyCollation padded({.byte_order = true}), unpadded({.pad_space = false, .byte_order = true});
  EXPECT_EQ(
      "6162"
      "202020202020"
      "02",
      hex(text_key(padded, "ab")));
  EXPECT_EQ(
      "6161616161616161"
      "03"
      "62"
      "20202020202020"
      "02",
      hex(text_key(padded, "aaaaaaaab")));
  EXPECT_EQ(
      "6161616161616161"
      "01"
      "09"
      "20202020202020"
      "02",
      hex(text_key(padded, "aaaaaaaa\t ")));
  EXPECT_EQ(
      "6162"
      "000000000000"
      "02",
      hex(text_key(unpadded, "ab")));
  EXPECT_EQ(
      "6161616161616161"
      "08",
      hex(text_key(unpadded, "aaaaaaaa")));
  EXPECT_EQ(
      "6161616161616161"
      "09"
      "20"
      "00000000000000"
      "01",
      hex(text_key(unpadded, "aaaaaaaa ")));
  EXPECT_EQ(
      "9e9d"
      "dfdfdfdfdfdf"
      "fd",
      hex(text_key(padded, "ab", true)));
}

TEST(KeyCodec, number_bytes_are_those_of_tables_K2_and_K3) {
  Table table;
  const Column id = table.add(fixed(3), true), size = table.add(fixed(2), false),
               ratio = table.add(fixed(8), false);
  const KeyCodec codec(0x0102,
                       {{.kind = KeyKind::kSigned, .source = id},
                        {.kind = KeyKind::kUnsigned, .source = size, .descending = true},
                        {.kind = KeyKind::kDouble, .source = ratio}},
                       3);
  Record record(table);
  record.set(id, "\xFE\xFF\xFF");  // -2
  record.set(size, "\x02\x01");    // 258
  const double minus_zero = -0.0;
  record.set(ratio, {reinterpret_cast<const char *>(&minus_zero), 8});
  std::string key;
  codec.append_start(7, &key);
  bool has_null = false;
  codec.append_parts(record.data(), 3, &key, &has_null);
  EXPECT_EQ(
      "000000070102"
      "017ffffe"
      "fefd"
      "8000000000000000",
      hex(key));
  EXPECT_FALSE(has_null);
}

TEST(KeyCodec, only_nulls_of_user_parts_are_reported) {
  Table table;
  const Column a = table.add(fixed(4), true), b = table.add(fixed(4), true);
  const KeyCodec codec(1, {{.kind = KeyKind::kSigned, .source = a}, {.kind = KeyKind::kSigned, .source = b}},
                       1);
  Record record(table);
  record.set(a, "abcd");
  record.set_null_value(b);
  std::string key;
  bool has_null = false;
  codec.append_parts(record.data(), 2, &key, &has_null);
  EXPECT_FALSE(has_null);
  record.set_null_value(a);
  codec.append_parts(record.data(), 2, &key, &has_null);
  EXPECT_TRUE(has_null);
}

TEST(KeyCodec, binary_collations_need_no_unpack_bytes_for_usual_texts) {
  const ToyCollation padded({.byte_order = true});
  Table table;
  const Column column = table.add(varchar(300), false);
  const KeyCodec codec(
      1, {{.kind = KeyKind::kText, .source = column, .collation = &padded, .characters_max = 300}}, 1);
  Record record(table);
  std::string unpack;
  record.set(column, "usual");
  codec.append_unpack(record.data(), &unpack);
  EXPECT_EQ("", hex(unpack));
  record.set(column, "two  ");
  codec.append_unpack(record.data(), &unpack);
  EXPECT_EQ("02", hex(unpack));
}

TEST(KeyCodec, nan_sorts_after_infinity) {
  const uint64_t infinity = std::bit_cast<uint64_t>(std::numeric_limits<double>::infinity());
  const uint64_t nan = std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN());
  EXPECT_GT(ordered_double(nan), ordered_double(infinity));
  EXPECT_EQ(ordered_double(nan), ordered_double(nan | uint64_t{1} << 63));
}

TEST(KeyCodec, people_read_integers_and_plain_text_and_bytes_of_the_rest) {
  Table table;
  const Column id = table.add(fixed(3), true), size = table.add(fixed(8), false),
               name = table.add(varchar(30), false), rest = table.add(fixed(2), false);
  const KeyCodec codec(1,
                       {{.kind = KeyKind::kSigned, .source = id, .is_integer = true},
                        {.kind = KeyKind::kUnsigned, .source = size, .descending = true, .is_integer = true},
                        {.kind = KeyKind::kBinary, .source = name},
                        {.kind = KeyKind::kBytes, .source = rest}},
                       4);
  Record record(table);
  record.set(id, "\xFE\xFF\xFF");  // -2
  record.set(size, std::string(8, '\xFF'));
  record.set(name, "longer than a group");
  record.set(rest, std::string_view("\x00\x0A", 2));
  const std::string key = key_of(codec, record);
  const std::string numbers = "-2, 18446744073709551615";
  EXPECT_EQ(codec.text_of(key), "(" + numbers + ", 'longer than a group', X'000A')");
  EXPECT_EQ(codec.text_of(key + '\x01'), "(" + numbers + ", 'longer than a group', X'000A', X'01')");
  EXPECT_EQ(codec.text_of(key.substr(0, 4)), "(-2)") << "the start of a key";
  EXPECT_EQ(codec.text_of(key.substr(0, 6)), "(-2, X'0000')") << "cut inside a part";
  record.set(name, "don't");
  record.set_null_value(id);
  EXPECT_EQ(codec.text_of(key_of(codec, record)),
            "(NULL, 18446744073709551615, X'646F6E277400000005', X'000A')");
}

TEST(KeyCodec, key_after_prefix_is_the_next_possible_key) {
  EXPECT_EQ(std::string("ab\x01", 3), key_after_prefix(std::string_view("ab\0", 3)));
  EXPECT_EQ("b", key_after_prefix("a\xFF\xFF"));
  EXPECT_EQ("", key_after_prefix("\xFF\xFF"));
  EXPECT_EQ("", key_after_prefix(""));
}

}  // namespace
}  // namespace atoll::codec::testing
