// Reads and writes rows that are stored in pieces (codec/large_row.h). Beside the caller's own copy of such a
// row, a read needs memory for the row once, and a write for only one piece.
//
// Pieces are written, read and removed under the lock of their row, or read at the snapshot that showed the
// row.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/large_row.h"
#include "lsm/figures/figures.h"
#include "table/layout.h"
#include "txn/transaction.h"

namespace atoll::table {

// *row: the whole row of the stored value `stored`, as of `snapshot` (nullptr: the newest committed version).
// This is `stored` itself, or, if that is a reference to pieces, the row joined in `buffer`. Uncommitted
// changes are not seen. Errors: kCorruption, kUnavailable.
Status whole_row_at(const Layout &layout, const rocksdb::Snapshot *snapshot, std::string_view primary_key,
                    std::string_view stored, std::string *buffer, std::string_view *row);

// *row: the row joined from the pieces to which `stored` refers, as a transaction sees them, own changes
// included. Errors: kCorruption, kUnavailable.
Status join_row_at(const Layout &layout, txn::Transaction *transaction, txn::ReadAt at,
                   std::string_view primary_key, std::string_view stored, std::string *row);

// Cuts a record into pieces. Only the columns of fixed length are copied, so the record and the BLOBs to
// which it points must not change while this object exists.
class CutRow {
 public:
  using Write = std::function<Status(std::string_view key, std::string_view piece)>;

  CutRow(const codec::RowCodec &codec, const uint8_t *record) {
    codec.pack_in_parts(record, &head_, &variable_);
  }
  // Whether the record is too large to be stored as one value (more than codec::kLargeRowBytes).
  static bool is_needed(const codec::RowCodec &codec, const uint8_t *record);

  // Returns the reference to the pieces, which is stored under the row's key. Reads the whole row for its
  // checksum.
  codec::LargeRow reference() const;
  // Calls `write` for each piece, in the order of the keys of the pieces. Errors: as `write`.
  Status each_piece(std::string_view primary_key, const Write &write) const;
  bool operator==(const CutRow &) const = default;

 private:
  std::string head_;
  std::vector<std::string_view> variable_;
};

// Checks that the row can be packed. Errors: kInvalid if the columns of variable length together have 4 GiB
// or more, which a packed row cannot hold.
Status check_row_size(const codec::RowCodec &codec, const uint8_t *record);

// Shown to the user when an ALTER cannot change the primary key in place, because the table has rows in
// pieces and the key of each piece contains the primary key. While an ALTER changes the primary key in place,
// writers store large rows whole, so no new pieces come.
inline constexpr char kPiecesHinderRekey[] =
    "rows larger than 4 MiB are stored in pieces under the primary key";

// Estimates the bytes of the table's rows, their pieces included.
uint64_t stored_bytes_of_rows(lsm::Figures *figures, const Layout &layout);

// *count: the number of pieces that the table's rows have. Stops counting at `count_max`.
Status count_row_pieces(const Layout &layout, uint64_t count_max, uint64_t *count);

}  // namespace atoll::table
