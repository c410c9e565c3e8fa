// Makes random indexes over random tables, and computes the SQL order of their entries from the values,
// without keys. For the tests of this folder; not part of the engine.
#pragma once

#include <cmath>
#include <limits>

#include "codec/test_tables.h"

namespace atoll::codec::testing {

struct Index {
  Table table;
  std::vector<KeyPart> parts;
};

inline KeyPart random_text_part(Random &random, Table &table, bool nullable) {
  const uint32_t length = static_cast<uint32_t>(1 + random.below(40));
  KeyPart part{.kind = KeyKind::kText};
  switch (random.below(4)) {
    case 0:
      part.source = table.add(padded_char(length), nullable);
      break;
    case 1:
      part.source = table.add(blob(2), nullable);
      break;
    default:
      part.source = table.add(varchar(random.one_in(3) ? 300 : length), nullable);
      break;
  }
  part.collation = toy_collations()[random.below(toy_collations().size())].get();
  const bool must_cut = part.source.kind == ColumnKind::kBlob && part.collation->pad_space();
  if (random.one_in(3) || must_cut)
    part.prefix_characters =
        static_cast<uint32_t>(1 + random.below(std::min<uint32_t>(20, part.source.length)));
  part.filled_with_spaces = part.source.kind == ColumnKind::kChar;
  part.characters_max = part.prefix_characters ? part.prefix_characters : part.source.length;
  return part;
}

inline KeyPart random_part(Random &random, Table &table) {
  const bool nullable = random.one_in(2);
  KeyPart part;
  switch (random.below(8)) {
    case 0:
      part = {.kind = KeyKind::kUnsigned,
              .source = table.add(fixed(static_cast<uint32_t>(1 + random.below(8))), nullable)};
      break;
    case 1: {
      constexpr uint32_t kWidths[] = {1, 2, 3, 4, 8};
      part = {.kind = KeyKind::kSigned, .source = table.add(fixed(kWidths[random.below(5)]), nullable)};
      break;
    }
    case 2:
      part = {.kind = KeyKind::kFloat, .source = table.add(fixed(4), nullable)};
      break;
    case 3:
      part = {.kind = KeyKind::kDouble, .source = table.add(fixed(8), nullable)};
      break;
    case 4:
      part = {.kind = KeyKind::kBytes,
              .source = table.add(fixed(static_cast<uint32_t>(1 + random.below(9))), nullable)};
      if (random.one_in(4)) part.prefix_length = 1 + static_cast<uint32_t>(random.below(part.source.length));
      break;
    case 5:
      part = {.kind = KeyKind::kBinary,
              .source = table.add(random.one_in(2) ? varchar(30) : blob(2), nullable)};
      if (random.one_in(3)) part.prefix_length = static_cast<uint32_t>(1 + random.below(20));
      break;
    default:
      part = random_text_part(random, table, nullable);
      break;
  }
  part.descending = random.one_in(3);
  return part;
}

inline Index random_index(Random &random) {
  Index index;
  for (size_t left = 1 + random.below(4); left > 0; --left)
    index.parts.push_back(random_part(random, index.table));
  return index;
}

inline std::string random_number(Random &random, const KeyPart &part) {
  std::string bytes(part.source.length, '\0');
  uint64_t bits = random.one_in(2) ? random.bits() : random.below(5) - 2;
  if (part.kind == KeyKind::kDouble) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double chosen[] = {0.0, -0.0, 1.5, -1.5, kInfinity, -kInfinity, 5e-324, -5e-324, 1e300};
    double number = chosen[random.below(9)];
    if (random.one_in(2))
      number = std::ldexp(static_cast<double>(static_cast<int64_t>(random.bits())),
                          static_cast<int>(random.below(40)) - 60);
    bits = std::bit_cast<uint64_t>(number);
  }
  if (part.kind == KeyKind::kFloat) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float chosen[] = {0.0f, -0.0f, 1.5f, -1.5f, kInfinity, -kInfinity, 1e-45f, -1e-45f, 3e38f};
    float number = chosen[random.below(9)];
    if (random.one_in(2)) number = static_cast<float>(static_cast<int32_t>(random.bits())) / 1000.0f;
    bits = std::bit_cast<uint32_t>(number);
  }
  for (char &c : bytes) {
    c = static_cast<char>(bits);
    bits >>= 8;
  }
  if (part.kind == KeyKind::kBytes)
    for (char &c : bytes) c = random.one_in(2) ? '\0' : static_cast<char>(random.bits());
  return bytes;
}

inline std::string random_value(Random &random, const KeyPart &part) {
  const size_t longest = std::min<uint32_t>(part.source.length, random.one_in(10) ? 300 : 24);
  if (part.kind == KeyKind::kBinary) return random.text(longest, std::string_view("\0\x01 a\xFF", 5));
  if (part.kind == KeyKind::kText) return random.text(longest, std::string_view("\x01\t aAbB\xFF", 8));
  return random_number(random, part);
}

inline Record random_record(Random &random, const Index &index) {
  Record record(index.table, static_cast<uint8_t>(random.bits()));
  for (const KeyPart &part : index.parts) {
    if (part.source.null_offset >= 0 && random.one_in(4))
      record.set_null_value(part.source);
    else
      record.set(part.source, random_value(random, part));
  }
  return record;
}

inline int sign(int order) { return order < 0 ? -1 : order > 0; }

template <typename T>
int order_of_numbers(T a, T b) {
  return a < b ? -1 : b < a;
}

inline int64_t signed_number(std::string_view bytes) {
  int64_t number = static_cast<int8_t>(bytes.back());
  for (size_t i = bytes.size() - 1; i-- > 0;) number = number * 256 + static_cast<uint8_t>(bytes[i]);
  return number;
}

// The text that SQL compares for this part: the indexed prefix or else the whole text. For a CHAR column,
// spaces fill it up.
inline std::string compared_text(const KeyPart &part, std::string_view text) {
  std::string compared(text.substr(0, part.prefix_characters ? part.prefix_characters : text.npos));
  if (part.filled_with_spaces) compared.resize(part.characters_max, ' ');
  return compared;
}

// The order of two values of a part by SQL rules. Neither value is NULL; DESC is ignored.
inline int order_of_values(const KeyPart &part, std::string_view a, std::string_view b) {
  switch (part.kind) {
    case KeyKind::kUnsigned:
      return order_of_numbers(load_le_bytes(as_bytes(a), a.size()), load_le_bytes(as_bytes(b), b.size()));
    case KeyKind::kSigned:
      return order_of_numbers(signed_number(a), signed_number(b));
    case KeyKind::kFloat:
      return order_of_numbers(load_le<float>(a.data()), load_le<float>(b.data()));
    case KeyKind::kDouble:
      return order_of_numbers(load_le<double>(a.data()), load_le<double>(b.data()));
    case KeyKind::kBytes:
    case KeyKind::kBinary:
      if (part.prefix_length)
        return sign(a.substr(0, part.prefix_length).compare(b.substr(0, part.prefix_length)));
      return sign(a.compare(b));
    case KeyKind::kText:
      return part.collation->compare(compared_text(part, a), compared_text(part, b));
  }
  return 0;
}

inline int order_of_records(const Index &index, const Record &a, const Record &b) {
  for (const KeyPart &part : index.parts) {
    const bool null_a = is_null(part.source, a.data()), null_b = is_null(part.source, b.data());
    int order = null_a == null_b ? 0 : (null_a ? -1 : 1);
    if (!null_a && !null_b)
      order = order_of_values(part, column_bytes(part.source, a.data()), column_bytes(part.source, b.data()));
    if (order != 0) return part.descending ? -order : order;
  }
  return 0;
}

}  // namespace atoll::codec::testing
