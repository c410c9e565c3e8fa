// See online_rekey.h.
#include "handler/online_rekey.h"

namespace atoll::handler {

std::string RekeySource::claim(std::string_view new_key, std::string_view old_key) const {
  std::string key = claims_start;
  key.append(new_key.substr(codec::kKeyStartLength)).append(old_key.substr(codec::kKeyStartLength));
  return key;
}

std::string RekeySource::claim_to_number(std::string_view old_key) const {
  return claims_start + std::string(old_key.substr(codec::kKeyStartLength));
}

OnlineRekey::OnlineRekey(std::shared_ptr<const Layout> layout, RekeySource source, size_t record_bytes)
    : OnlineBuild(std::move(layout)), source_(std::move(source)), record_(record_bytes) {}

Status OnlineRekey::settle(const std::string &key, std::string_view wanted, rocksdb::WriteBatch *batch) {
  std::string current;
  ATOLL_RETURN_IF_ERROR(get(key, &current));
  if (wanted == current) return Status::Ok();
  if (!current.empty()) ATOLL_RETURN_IF_ERROR(change_entries(key, current, false, batch));
  if (wanted.empty()) return lsm::from_rocksdb(batch->Delete(layout_->family()->handle(), key));
  ATOLL_RETURN_IF_ERROR(change_entries(key, wanted, true, batch));
  return lsm::from_rocksdb(batch->Put(layout_->family()->handle(), key, wanted));
}

// Puts or removes the entries of a row in all indexes.
Status OnlineRekey::change_entries(const std::string &key, std::string_view row, bool put,
                                   rocksdb::WriteBatch *batch) {
  ATOLL_RETURN_IF_ERROR(layout_->row().unpack(row, nullptr, record_.data()));
  rocksdb::ColumnFamilyHandle *handle = layout_->family()->handle();
  std::string entry_key, entry_value;
  for (size_t i = 0; i < layout_->index_count(); i++) {
    if (static_cast<int>(i) == layout_->primary()) continue;
    bool has_null = false;
    layout_->secondary_entry(i, record_.data(), key, &entry_key, &entry_value, &has_null);
    const rocksdb::Status changed =
        put ? batch->Put(handle, entry_key, entry_value) : batch->Delete(handle, entry_key);
    if (!changed.ok()) return lsm::from_rocksdb(changed);
    if (!put || !layout_->index(i).unique) continue;
    const size_t length = layout_->unique_length(i, entry_key);
    if (length != 0) unique_starts_.emplace_back(i, entry_key.substr(0, length));
  }
  return Status::Ok();
}

Status OnlineRekey::write_settled(rocksdb::WriteBatch *batch) {
  ATOLL_RETURN_IF_ERROR(write(batch));
  for (const auto &[index, start] : unique_starts_) ATOLL_RETURN_IF_ERROR(suspect_if_double(index, start));
  unique_starts_.clear();
  return Status::Ok();
}

Status OnlineRekey::get(const std::string &key, std::string *value) const {
  value->clear();
  const rocksdb::Status found = main()->Get(rocksdb::ReadOptions(), layout_->family()->handle(), key, value);
  return found.IsNotFound() ? Status::Ok() : lsm::from_rocksdb(found);
}

void OnlineRekey::show_duplicate(uint8_t *record) {
  std::string row_key;
  if (layout_->primary_of_entry(duplicate_index(), duplicate_key_, &row_key).ok()) show_row(row_key, record);
}

void OnlineRekey::show_row(const std::string &key, uint8_t *record) {
  if (get(key, &shown_row_).ok() && !shown_row_.empty())
    (void)layout_->row().unpack(shown_row_, nullptr, record);
}

}  // namespace atoll::handler
