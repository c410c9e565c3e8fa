// Stores rows that are too large to be one value. The bytes of the packed row are cut into pieces, each under
// a key of its own. The value under the row's key is a reference to the pieces. Table FMT-R4 of
// docs/internals/formats-rows.md.
//
// Reason: memory holds several copies of a value while it is written (in a write set, in a block of a table
// file, in the compressed block). Pieces pass one by one, so only the pieces are held several times. Pieces
// have no locks of their own: a transaction that has locked the row is allowed to read and write its pieces.
//
// Invariants
//   ROW-4  A reference is never taken for a packed row. If the pieces are not exactly those for which the
//          reference was made, this is corruption.
// Tests: large_row_test.cc, tests/sql/test_huge.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace atoll::codec {

// A row whose variable columns have more bytes than this is stored in pieces.
inline constexpr size_t kLargeRowBytes = 4 << 20;
// Four pieces fit into a block of a write set's memory, which is 1 MiB.
inline constexpr size_t kRowPieceBytes = 255 << 10;
// The key of a piece has this number in place of an index ordinal. The ordinals of indexes begin with 1, so
// no piece has the key of an index entry.
inline constexpr uint16_t kRowPiecesOrdinal = 0;

// The first byte of a reference to a large row. It differs from the first byte of a packed row, in which bit
// 1 is never set (table FMT-R1).
inline constexpr char kLargeRowReference = 2;

// The content of a reference to a row in pieces.
struct LargeRow {
  uint64_t bytes = 0;     // length of the packed row
  uint32_t checksum = 0;  // of all bytes of the packed row; RowJoiner::finish() compares it

  uint64_t piece_count() const { return (bytes + kRowPieceBytes - 1) / kRowPieceBytes; }
};

// True if a stored value is a reference to a row in pieces, false if it is a packed row.
inline bool is_large_row(std::string_view stored) {
  return !stored.empty() && stored[0] == kLargeRowReference;
}
std::string encode(const LargeRow &row);
// Errors: kCorruption.
Status decode(std::string_view stored, LargeRow *row);

// The start that the keys of all pieces of one row have in common. `primary_key` is the row's whole key.
std::string row_pieces_start(std::string_view primary_key);
// The key of one piece; `start` is row_pieces_start().
std::string row_piece_key(std::string_view start, uint64_t number);
// The inverse: from the key of a piece, the whole key of the row that it belongs to.
std::string row_key_of(std::string_view piece_key);

// Takes the bytes of a row in parts of any length and cuts them into pieces. Each piece except the last has
// kRowPieceBytes.
class RowCutter {
 public:
  // Calls write(piece) -> Status for each piece that is full.
  template <typename Write>
  Status add(std::string_view part, const Write &write) {
    while (!part.empty()) {
      const std::string_view head = part.substr(0, kRowPieceBytes - piece_.size());
      part.remove_prefix(head.size());
      piece_.append(head);
      if (piece_.size() < kRowPieceBytes) continue;
      ATOLL_RETURN_IF_ERROR(write(piece_));
      piece_.clear();
    }
    return Status::Ok();
  }
  // Calls write(piece) for the last piece, if bytes are left.
  template <typename Write>
  Status finish(const Write &write) {
    return piece_.empty() ? Status::Ok() : write(piece_);
  }

 private:
  std::string piece_;  // the bytes that do not fill a piece yet
};

// Puts a row together from its pieces. `out` must outlive this object; after finish() it holds the packed
// row.
class RowJoiner {
 public:
  RowJoiner(const LargeRow &row, std::string_view primary_key, std::string *out);
  // The keys of all pieces lie in [start(), end()).
  const std::string &start() const { return start_; }
  std::string end() const;
  // Appends the next piece. The caller adds the pieces in key order. Errors: kCorruption.
  Status add(std::string_view key, std::string_view piece);
  // Checks that the row is complete. `checksum`: the checksum of *out, computed by the caller. Errors:
  // kCorruption.
  Status finish(uint32_t checksum) const;

 private:
  const LargeRow row_;
  const std::string start_;
  std::string *const out_;
  uint64_t next_ = 0;  // the number that the next piece must have
};

}  // namespace atoll::codec
