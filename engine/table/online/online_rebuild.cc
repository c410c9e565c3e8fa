// See online_rebuild.h.
#include "table/online/online_rebuild.h"

#include "codec/large_row.h"
#include "table/write/large_rows.h"

namespace atoll::table {

Status OnlineRebuild::settle(const std::string &key, std::string_view wanted, rocksdb::WriteBatch *batch) {
  std::string current;
  ATOLL_RETURN_IF_ERROR(get(key, &current));
  if (wanted == current) return Status::Ok();
  if (!current.empty()) ATOLL_RETURN_IF_ERROR(remove_former(key, current, batch));
  if (wanted.empty()) return lsm::from_rocksdb(batch->Delete(layout_->family()->handle(), key));
  ATOLL_RETURN_IF_ERROR(change_entries(layout_->row(), wanted, key, true, batch));
  return lsm::from_rocksdb(batch->Put(layout_->family()->handle(), key, wanted));
}

// Removes the entries and the pieces of the row that is stored under `key` as `stored`.
Status OnlineRebuild::remove_former(const std::string &key, std::string_view stored,
                                    rocksdb::WriteBatch *batch) {
  std::string buffer;
  std::string_view row;
  ATOLL_RETURN_IF_ERROR(whole_row_at(*layout_, nullptr, key, stored, &buffer, &row));
  ATOLL_RETURN_IF_ERROR(change_entries(layout_->row(), row, key, false, batch));
  if (!codec::is_large_row(stored)) return Status::Ok();
  codec::LargeRow large;
  ATOLL_RETURN_IF_ERROR(codec::decode(stored, &large));
  const std::string start = codec::row_pieces_start(key);
  for (uint64_t number = 0; number < large.piece_count(); number++) {
    const std::string piece = codec::row_piece_key(start, number);
    ATOLL_RETURN_IF_ERROR(lsm::from_rocksdb(batch->Delete(layout_->family()->handle(), piece)));
  }
  return Status::Ok();
}

Status OnlineRebuild::get(const std::string &key, std::string *value) const {
  value->clear();
  const rocksdb::Status found = layout_->family()->get(rocksdb::ReadOptions(), key, value);
  return found.IsNotFound() ? Status::Ok() : lsm::from_rocksdb(found);
}

}  // namespace atoll::table
