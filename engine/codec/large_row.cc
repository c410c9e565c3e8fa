// See large_row.h.
#include "codec/large_row.h"

#include "base/border/assert.h"
#include "base/bytes.h"
#include "codec/key_codec.h"

namespace atoll::codec {

namespace {

constexpr size_t kReferenceBytes = 1 + 8 + 4;  // kLargeRowReference, length, checksum
constexpr size_t kNumberBytes = 4;             // the piece's number at the end of its key
// The most bytes that a row can have. It allows for two columns of 4 GiB, which is more than the server can
// send in one statement.
constexpr uint64_t kRowBytesMax = 8ull << 30;

Status damaged() {
  return Status(Code::kCorruption, "the stored pieces of a large row do not match its reference");
}

}  // namespace

std::string encode(const LargeRow &row) {
  ATOLL_ASSERT(row.bytes > 0 && row.bytes <= kRowBytesMax);  // decode() refuses others
  std::string stored(kReferenceBytes, kLargeRowReference);
  store_le<uint64_t>(stored.data() + 1, row.bytes);
  store_le<uint32_t>(stored.data() + 9, row.checksum);
  return stored;
}

Status decode(std::string_view stored, LargeRow *row) {
  if (stored.size() != kReferenceBytes || stored[0] != kLargeRowReference)
    return Status(Code::kCorruption, "the stored reference to a large row is malformed");
  row->bytes = load_le<uint64_t>(stored.data() + 1);
  row->checksum = load_le<uint32_t>(stored.data() + 9);
  return row->bytes > 0 && row->bytes <= kRowBytesMax ? Status::Ok() : damaged();
}

// The start consists of: prefix | ordinal 0 | the row's key without its prefix, which is the primary key's
// ordinal and parts. No row's start is the beginning of another row's start, because no primary key is the
// beginning of another one.
std::string row_pieces_start(std::string_view primary_key) {
  std::string start(primary_key.substr(0, kKeyPrefixLength));
  start.push_back(static_cast<char>(kRowPiecesOrdinal >> 8));
  start.push_back(static_cast<char>(kRowPiecesOrdinal & 0xFF));
  return start.append(primary_key.substr(kKeyPrefixLength));
}

std::string row_piece_key(std::string_view start, uint64_t number) {
  ATOLL_ASSERT(number <= UINT32_MAX);  // kNumberBytes
  std::string key(start.size() + kNumberBytes, '\0');
  std::memcpy(key.data(), start.data(), start.size());
  store_be_bytes(reinterpret_cast<uint8_t *>(key.data()) + start.size(), number, kNumberBytes);
  return key;
}

std::string row_key_of(std::string_view piece_key) {
  std::string key(piece_key.substr(0, kKeyPrefixLength));
  piece_key.remove_prefix(kKeyStartLength);
  piece_key.remove_suffix(kNumberBytes);
  return key.append(piece_key);
}

RowJoiner::RowJoiner(const LargeRow &row, std::string_view primary_key, std::string *out)
    : row_(row), start_(row_pieces_start(primary_key)), out_(out) {
  out_->clear();
  out_->reserve(row.bytes);
}

std::string RowJoiner::end() const { return row_piece_key(start_, row_.piece_count()); }

Status RowJoiner::add(std::string_view key, std::string_view piece) {
  ATOLL_ASSERT(out_->size() <= row_.bytes);  // nobody else appends to it
  const uint64_t rest = row_.bytes - out_->size();
  const size_t wanted = rest < kRowPieceBytes ? rest : kRowPieceBytes;
  if (piece.size() != wanted || key != row_piece_key(start_, next_)) return damaged();
  out_->append(piece);
  ++next_;
  return Status::Ok();
}

Status RowJoiner::finish(uint32_t checksum) const {
  return out_->size() == row_.bytes && checksum == row_.checksum ? Status::Ok() : damaged();
}

}  // namespace atoll::codec
