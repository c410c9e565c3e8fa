// Rows that are stored in pieces (codec/large_row.h), so that beside what a caller itself holds of such a
// row, a read holds it once and a write a piece of it.
//
// Pieces are written, read and removed under the lock of their row, or read at the snapshot that showed it.
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

// The row that `stored` stands for in the database as of `snapshot` (nullptr: now): itself, or put together
// in `buffer`, which is otherwise left alone. What a transaction has not committed is not seen. Errors:
// kCorruption, kUnavailable.
Status whole_row_at(const Layout &layout, const rocksdb::Snapshot *snapshot, std::string_view primary_key,
                    std::string_view stored, std::string *buffer, std::string_view *row);

// Puts together the row of a reference, `stored`, as a transaction sees it, own changes included.
Status join_row_at(const Layout &layout, txn::Transaction *transaction, txn::ReadAt at,
                   std::string_view primary_key, std::string_view stored, std::string *row);

// A record to be stored in pieces; none of it is copied but its columns of fixed length. The record and what
// it points to must stay as they are meanwhile.
class CutRow {
 public:
  using Write = std::function<Status(std::string_view key, std::string_view piece)>;

  CutRow(const codec::RowCodec &codec, const uint8_t *record) {
    codec.pack_in_parts(record, &head_, &variable_);
  }
  // Whether the record is too large to be one value.
  static bool is_needed(const codec::RowCodec &codec, const uint8_t *record);

  // What stands for the pieces under the row's key. Reads the whole row.
  codec::LargeRow reference() const;
  // Calls write for all pieces, in the order of their keys. Errors: those of write.
  Status each_piece(std::string_view primary_key, const Write &write) const;
  bool operator==(const CutRow &) const = default;

 private:
  std::string head_;
  std::vector<std::string_view> variable_;
};

// kInvalid if the columns of variable length have 4 GiB or more: what a packed row cannot hold.
Status check_row_size(const codec::RowCodec &codec, const uint8_t *record);

// Pieces stand under the primary key. While rows get another one or numbers, they are stored whole.
inline constexpr char kPiecesHinderRekey[] =
    "rows larger than 4 MiB are stored in pieces under the primary key";

// Bytes that the table's rows take, their pieces included; estimated.
uint64_t stored_bytes_of_rows(lsm::Figures *figures, const Layout &layout);

// How many pieces of rows the table has; at most `count_max` are counted.
Status count_row_pieces(const Layout &layout, uint64_t count_max, uint64_t *count);

}  // namespace atoll::table
