#include "table/write/large_rows.h"

#include "lsm/load/crc32c.h"

namespace atoll::table {
namespace {

// Returns the bytes with which the keys of all pieces of the table's rows begin.
std::string start_of_pieces(const Layout &layout) {
  return codec::row_pieces_start(layout.primary_index().start.substr(0, codec::kKeyPrefixLength));
}

// Reads the pieces of a row and joins them. `open` makes an iterator for the options' range; the iterator can
// also return entries after that range, which are ignored.
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
  ATOLL_RETURN_IF_ERROR(lsm::from_rocksdb(pieces->status()));
  lsm::Crc32c checksum;
  checksum.add(*row);
  return joiner.finish(checksum.finish());
}

}  // namespace

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
  lsm::Crc32c checksum;
  const auto add = [&](std::string_view part) {
    row.bytes += part.size();
    checksum.add(part);
  };
  add(head_);
  for (const std::string_view part : variable_) add(part);
  row.checksum = checksum.finish();
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

uint64_t stored_bytes_of_rows(lsm::Figures *figures, const Layout &layout) {
  const IndexLayout &rows = layout.primary_index();
  const uint64_t bytes = figures->estimate(layout.family(), rows.start, rows.end).bytes;
  if (!layout.row().may_exceed(codec::kLargeRowBytes)) return bytes;
  const std::string start = start_of_pieces(layout);
  return bytes + figures->estimate(layout.family(), start, codec::key_after_prefix(start)).bytes;
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

}  // namespace atoll::table
