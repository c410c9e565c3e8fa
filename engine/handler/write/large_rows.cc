// ha_atoll: rows too large to be one value (codec/large_row.h), written and read piece by piece, so that
// beside what the server itself holds of such a row, a read holds it once and a write a piece of it.
//
// Pieces are written, read and removed under the lock of their row, or read at the snapshot that showed it.
#include "handler/write/large_rows.h"

#include "engine/running.h"
#include "handler/server/error_map.h"
#include "handler/ha_atoll.h"
#include "handler/alter/online/online_build.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace codec = atoll::codec;
namespace txn = atoll::txn;

namespace {

// What the keys of all pieces of all rows begin with.
std::string start_of_pieces(const ah::Layout &layout) {
  return codec::row_pieces_start(layout.primary_index().start.substr(0, codec::kKeyPrefixLength));
}

// `open` makes an iterator over the options' range; what it gives behind the range is not looked at.
template <typename Open>
Status join_pieces(std::string_view stored, std::string_view primary_key, const Open &open,
                   std::string *row) {
  codec::LargeRow large;
  ATOLL_RETURN_IF_ERROR(codec::decode(stored, &large));
  codec::RowJoiner joiner(large, primary_key, row);
  txn::ScanOptions options;
  options.lower = joiner.start();
  options.upper = joiner.end();
  options.fill_cache = false;
  options.readahead_bytes = 2 << 20;
  const std::unique_ptr<rocksdb::Iterator> pieces = open(options);
  for (pieces->Seek(options.lower); pieces->Valid() && pieces->key().compare(options.upper) < 0;
       pieces->Next())
    ATOLL_RETURN_IF_ERROR(joiner.add(pieces->key().ToStringView(), pieces->value().ToStringView()));
  ATOLL_RETURN_IF_ERROR(atoll::lsm::from_rocksdb(pieces->status()));
  return joiner.finish(my_crc32c(0, row->data(), row->size()));
}

}  // namespace

namespace atoll::handler {

bool CutRow::is_needed(const codec::RowCodec &codec, const uint8_t *record) {
  return codec.may_exceed(codec::kLargeRowBytes) && codec.exceeds(record, codec::kLargeRowBytes);
}

Status check_row_size(const codec::RowCodec &codec, const uint8_t *record) {
  if (!codec.may_exceed(UINT32_MAX) || !codec.exceeds(record, UINT32_MAX)) return Status::Ok();
  return Status(Code::kInvalid,
                "the row is too large: its columns have 4 GiB or more together; shorten a value, or store it "
                "as several rows");
}

codec::LargeRow CutRow::reference() const {
  codec::LargeRow row;
  const auto add = [&row](std::string_view part) {
    row.bytes += part.size();
    row.checksum = my_crc32c(row.checksum, part.data(), part.size());
  };
  add(head_);
  for (const std::string_view part : variable_) add(part);
  return row;
}

Status CutRow::each_piece(std::string_view primary_key, const Write &write) const {
  const std::string start = codec::row_pieces_start(primary_key);
  uint64_t number = 0;
  const auto write_next = [&](std::string_view piece) {
    return write(codec::row_piece_key(start, number++), piece);
  };
  codec::RowCutter cutter;
  ATOLL_RETURN_IF_ERROR(cutter.add(head_, write_next));
  for (const std::string_view part : variable_) ATOLL_RETURN_IF_ERROR(cutter.add(part, write_next));
  return cutter.finish(write_next);
}

Status whole_row_at(const Layout &layout, const rocksdb::Snapshot *snapshot, std::string_view primary_key,
                    std::string_view stored, std::string *buffer, std::string_view *row) {
  *row = stored;
  if (!codec::is_large_row(stored)) return Status::Ok();
  const auto open = [&](const txn::ScanOptions &options) {
    rocksdb::ReadOptions read;
    read.snapshot = snapshot;
    read.fill_cache = options.fill_cache;
    read.readahead_size = options.readahead_bytes;
    return layout.family()->iterator(read);
  };
  ATOLL_RETURN_IF_ERROR(join_pieces(stored, primary_key, open, buffer));
  *row = *buffer;
  return Status::Ok();
}

Status join_row_at(const Layout &layout, txn::Transaction *transaction, txn::ReadAt at,
                   std::string_view primary_key, std::string_view stored, std::string *row) {
  return join_pieces(
      stored, primary_key,
      [&](const txn::ScanOptions &options) { return transaction->scan(layout.family(), at, options); }, row);
}

uint64_t stored_bytes_of_rows(const Layout &layout) {
  lsm::Database *database = engine::running()->database();
  const IndexLayout &rows = layout.primary_index();
  const uint64_t bytes = database->estimate(layout.family(), rows.start, rows.end).bytes;
  if (!layout.row().may_exceed(codec::kLargeRowBytes)) return bytes;
  const std::string start = start_of_pieces(layout);
  return bytes + database->estimate(layout.family(), start, codec::key_after_prefix(start)).bytes;
}

Status count_row_pieces(const Layout &layout, uint64_t count_max, uint64_t *count) {
  const std::string start = start_of_pieces(layout);
  const std::string end = codec::key_after_prefix(start);
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> pieces = layout.family()->iterator(read);
  *count = 0;
  for (pieces->Seek(start); *count < count_max && pieces->Valid() && pieces->key().compare(end) < 0;
       pieces->Next())
    ++*count;
  return lsm::from_rocksdb(pieces->status());
}

}  // namespace atoll::handler

// ---- Writing -------------------------------------------------------------------------------------

bool ha_atoll::goes_in_pieces(const uchar *record) const {
  return ah::CutRow::is_needed(layout_->row(), record) &&
         !(online_build_ && online_build_->needs_whole_rows());
}

// Stores packed_row_, or the record in pieces. Unless it is new, pieces of its former version that are left
// over go.
Status ha_atoll::put_row(const uchar *record, const std::string &primary_key, bool in_pieces, bool is_new) {
  const auto put = [&](std::string_view stored) {
    return is_new ? transaction()->insert(layout_->family(), primary_key, stored, reader_.table().lock_wait())
                  : transaction()->put(layout_->family(), primary_key, stored);
  };
  if (is_new) old_pieces_ = 0;
  if (!in_pieces) {
    ATOLL_RETURN_IF_ERROR(put(packed_row_));
    return remove_pieces(primary_key, 0);
  }
  const ah::CutRow row(layout_->row(), record);
  const codec::LargeRow reference = row.reference();
  ATOLL_RETURN_IF_ERROR(put(codec::encode(reference)));
  ATOLL_RETURN_IF_ERROR(row.each_piece(primary_key, [this](std::string_view key, std::string_view piece) {
    return transaction()->put(layout_->family(), key, piece);
  }));
  return remove_pieces(primary_key, reference.piece_count());
}

// Removes the pieces of the row's former version from number `from` on.
Status ha_atoll::remove_pieces(const std::string &primary_key, uint64_t from) {
  if (old_pieces_ == 0) return Status::Ok();
  const std::string start = codec::row_pieces_start(primary_key);
  for (; from < old_pieces_; from++)
    ATOLL_RETURN_IF_ERROR(transaction()->remove(layout_->family(), codec::row_piece_key(start, from)));
  old_pieces_ = 0;
  return Status::Ok();
}

// Before a row is changed: packs it as it is into old_packed_row_ (left empty if it is large, which equals no
// stored row), and counts its pieces in old_pieces_. They are counted by what is stored: the record may lack
// columns that were dropped since, and rows that older builds copied are whole, however large.
Status ha_atoll::pack_old_row(const uchar *record, const std::string &primary_key) {
  old_packed_row_.clear();
  old_pieces_ = 0;
  const codec::RowCodec &row = layout_->row();
  if (row.may_exceed(codec::kLargeRowBytes)) {
    rocksdb::PinnableSlice stored;
    ATOLL_RETURN_IF_ERROR(transaction()->get(layout_->family(), primary_key, txn::ReadAt::kLatest, &stored));
    codec::LargeRow large;
    if (codec::is_large_row(stored.ToStringView())) {
      ATOLL_RETURN_IF_ERROR(codec::decode(stored.ToStringView(), &large));
      old_pieces_ = large.piece_count();
    }
    if (old_pieces_ != 0 || row.exceeds(record, codec::kLargeRowBytes)) return Status::Ok();
  }
  row.pack(record, &old_packed_row_);
  return Status::Ok();
}

bool ha_atoll::are_same_large_row(const uchar *a, const uchar *b) const {
  return ah::CutRow(layout_->row(), a) == ah::CutRow(layout_->row(), b);
}
