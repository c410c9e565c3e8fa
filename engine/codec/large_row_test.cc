// Goal:   the pieces of a large row give the same row back. Pieces that are missing, too many or changed are
//         corruption (ROW-4).
// Method: rows with lengths around a multiple of the piece length, added in parts of several lengths. In
//         other rows, each piece in turn is left out, cut, doubled or changed.
#include "codec/large_row.h"

#include <gtest/gtest.h>

#include "codec/key_codec.h"
#include "codec/test_tables.h"

namespace atoll::codec::testing {
namespace {

uint32_t sum_of(std::string_view bytes) {
  uint32_t sum = 17;
  for (const char byte : bytes) sum = sum * 31 + static_cast<uint8_t>(byte);
  return sum;
}

std::string pattern(size_t length) {
  std::string bytes(length, '\0');
  for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
  return bytes;
}

const std::string kPrimaryKey = std::string("\0\0\0\5\0\1", 6) + "key";

struct Pieces {
  std::vector<std::string> keys, values;
};

Pieces cut(std::string_view row, size_t part_bytes) {
  Pieces pieces;
  const std::string start = row_pieces_start(kPrimaryKey);
  const auto write = [&](std::string_view piece) {
    pieces.keys.push_back(row_piece_key(start, pieces.keys.size()));
    pieces.values.emplace_back(piece);
    return Status::Ok();
  };
  RowCutter cutter;
  for (size_t at = 0; at < row.size(); at += part_bytes)
    EXPECT_TRUE(cutter.add(row.substr(at, part_bytes), write).ok());
  EXPECT_TRUE(cutter.finish(write).ok());
  return pieces;
}

TEST(LargeRow, tells_its_key_by_each_piece) {
  for (const std::string &key : cut(pattern(2 * kRowPieceBytes), 1000).keys)
    EXPECT_EQ(row_key_of(key), kPrimaryKey);
}

Status join(const LargeRow &row, const Pieces &pieces, std::string *out) {
  RowJoiner joiner(row, kPrimaryKey, out);
  for (size_t i = 0; i < pieces.keys.size(); ++i) {
    EXPECT_GE(pieces.keys[i], joiner.start());
    ATOLL_RETURN_IF_ERROR(joiner.add(pieces.keys[i], pieces.values[i]));
  }
  return joiner.finish(sum_of(*out));
}

TEST(LargeRow, comes_back_whatever_parts_it_came_in) {
  for (const size_t length :
       {size_t{1}, kRowPieceBytes - 1, kRowPieceBytes, kRowPieceBytes + 1, 3 * kRowPieceBytes}) {
    const std::string row = pattern(length);
    for (const size_t part : {size_t{1000}, kRowPieceBytes, 5 * kRowPieceBytes}) {
      const LargeRow large{row.size(), sum_of(row)};
      const Pieces pieces = cut(row, part);
      EXPECT_EQ(large.piece_count(), pieces.keys.size());
      std::string out;
      ASSERT_TRUE(join(large, pieces, &out).ok());
      ASSERT_EQ(row, out);
    }
  }
}

TEST(LargeRow, its_reference_is_no_packed_row_and_comes_back) {
  const LargeRow row{5ull << 30, 0x89ABCDEF};
  const std::string stored = encode(row);
  EXPECT_TRUE(is_large_row(stored));
  LargeRow read;
  ASSERT_TRUE(decode(stored, &read).ok());
  EXPECT_EQ(row.bytes, read.bytes);
  EXPECT_EQ(row.checksum, read.checksum);
  for (size_t length = 0; length < stored.size(); ++length)
    EXPECT_EQ(Code::kCorruption, decode(std::string_view(stored).substr(0, length), &read).code());
  Table table;
  const Column text = table.add(blob(4), false);
  const RowCodec codec(1, table.columns());
  Record record(table);
  record.set(text, "some text");
  EXPECT_EQ(Code::kCorruption, codec.unpack(stored, nullptr, record.data()).code());
  std::string packed;
  codec.pack(record.data(), &packed);
  EXPECT_FALSE(is_large_row(packed));
}

TEST(LargeRow, other_pieces_than_its_own_are_corruption) {
  const std::string row = pattern(3 * kRowPieceBytes + 10);
  const LargeRow large{row.size(), sum_of(row)};
  const Pieces whole = cut(row, row.size());
  std::string out;
  for (size_t i = 0; i < whole.keys.size(); ++i) {
    Pieces missing = whole, cut_off = whole, twice = whole, changed = whole;
    missing.keys.erase(missing.keys.begin() + static_cast<long>(i));
    missing.values.erase(missing.values.begin() + static_cast<long>(i));
    cut_off.values[i].pop_back();
    twice.keys.insert(twice.keys.begin() + static_cast<long>(i), whole.keys[i]);
    twice.values.insert(twice.values.begin() + static_cast<long>(i), whole.values[i]);
    changed.values[i][3] ^= 1;
    for (const Pieces *wrong : {&missing, &cut_off, &twice, &changed})
      EXPECT_EQ(Code::kCorruption, join(large, *wrong, &out).code());
  }
}

// In key order, a row's pieces come before the entries of the table's indexes, and no other row's piece lies
// between them.
TEST(LargeRow, its_pieces_lie_together_and_in_order) {
  const std::string other = std::string("\0\0\0\5\0\1", 6) + "kez";
  const std::string start = row_pieces_start(kPrimaryKey);
  EXPECT_LT(row_piece_key(start, 255), row_piece_key(start, 256));
  EXPECT_LT(row_piece_key(start, UINT32_MAX), row_pieces_start(other));
  EXPECT_LT(row_piece_key(row_pieces_start(other), UINT32_MAX), kPrimaryKey);
  EXPECT_EQ(start.substr(0, 4), kPrimaryKey.substr(0, 4));
}

TEST(LargeRow, parts_of_a_row_are_its_packed_bytes) {
  Table table;
  const Column number = table.add(fixed(4), true), name = table.add(varchar(20), true);
  const Column text = table.add(blob(4), true), code = table.add(padded_char(6), false);
  const RowCodec codec(3, table.columns());
  for (const size_t length : {size_t{0}, size_t{50}, size_t{70000}}) {
    Record record(table);
    record.set(number, "abcd");
    record.set_null_value(name);
    record.set(text, std::string(length, 'b'));
    record.set(code, "cd");
    std::string packed, head;
    std::vector<std::string_view> variable;
    codec.pack(record.data(), &packed);
    codec.pack_in_parts(record.data(), &head, &variable);
    for (const std::string_view part : variable) head.append(part);
    EXPECT_EQ(packed, head);
  }
}

TEST(LargeRow, only_tables_that_can_have_one_are_asked_for_it) {
  Table small, medium;
  small.add(blob(2), false);
  medium.add(blob(3), false);
  RowCodec codec(2, small.columns());
  EXPECT_FALSE(codec.may_exceed(kLargeRowBytes));
  EXPECT_TRUE(RowCodec(2, medium.columns()).may_exceed(kLargeRowBytes));
  codec.add_past_version(1,
                         {{1, ColumnKind::kBlob, UINT32_MAX, false}, {9, ColumnKind::kVarchar, 400, false}});
  EXPECT_FALSE(codec.may_exceed(kLargeRowBytes));
  codec.add_past_version(
      0, {{1, ColumnKind::kBlob, UINT32_MAX, false}, {9, ColumnKind::kBlob, UINT32_MAX, false}});
  EXPECT_TRUE(codec.may_exceed(kLargeRowBytes)) << "rows with a column that was dropped";
}

}  // namespace
}  // namespace atoll::codec::testing
