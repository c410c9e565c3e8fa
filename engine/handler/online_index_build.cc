// See online_index_build.h.
#include "handler/online_index_build.h"

#include <rocksdb/write_batch.h>

namespace atoll::handler {

Status OnlineIndexBuild::log_change(txn::Transaction *transaction, const RowImage &before,
                                    const RowImage &after) {
  Change removed, added{true};
  std::string old_value;
  bool has_null = false;
  for (const size_t i : indexes_) {
    removed.index = added.index = static_cast<uint16_t>(i);
    if (before.record != nullptr)
      layout_->secondary_entry(i, before.record, *before.primary_key, &removed.key, &old_value, &has_null);
    if (after.record != nullptr)
      layout_->secondary_entry(i, after.record, *after.primary_key, &added.key, &added.value, &has_null);
    const bool same_key = before.record != nullptr && after.record != nullptr && removed.key == added.key;
    if (same_key && old_value == added.value) continue;
    if (before.record != nullptr && !same_key) ATOLL_RETURN_IF_ERROR(append(transaction, removed));
    if (after.record != nullptr) ATOLL_RETURN_IF_ERROR(append(transaction, added));
  }
  return Status::Ok();
}

Status OnlineIndexBuild::apply(const std::vector<Change> &changes) {
  rocksdb::WriteBatch batch;
  rocksdb::ColumnFamilyHandle *handle = layout_->family()->handle();
  for (const Change &change : changes) {
    if (change.index >= layout_->index_count())
      return Status(Code::kCorruption, "a record of the change log of an ALTER names no index");
    const rocksdb::Status added =
        change.put ? batch.Put(handle, change.key, change.value) : batch.Delete(handle, change.key);
    if (!added.ok()) return lsm::from_rocksdb(added);
  }
  ATOLL_RETURN_IF_ERROR(write(&batch));
  for (const Change &change : changes) {
    if (!change.put || !layout_->index(change.index).unique) continue;
    const size_t length = layout_->unique_length(change.index, change.key);
    if (length != 0) ATOLL_RETURN_IF_ERROR(suspect_if_double(change.index, change.key.substr(0, length)));
  }
  return Status::Ok();
}

void OnlineIndexBuild::show_duplicate(uint8_t *record) {
  if (duplicate_key_.size() <= codec::kKeyStartLength) return;
  if (!main()->Get(rocksdb::ReadOptions(), layout_->family()->handle(), duplicate_key_, &shown_value_).ok())
    return;
  (void)layout_->index(duplicate_index())
      .codec->decode(std::string_view(duplicate_key_).substr(codec::kKeyStartLength), shown_value_, record,
                     &scratch_);
}

}  // namespace atoll::handler
