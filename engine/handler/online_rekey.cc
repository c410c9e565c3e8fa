// See online_rekey.h.
#include "handler/online_rekey.h"

#include <set>

#include "base/bytes.h"

namespace atoll::handler {
namespace {

// The value of a log record: length of the old key, the old key, the row (empty: removed).
struct LoggedClaim {
  std::string_view old_key, row;

  static std::string encode(std::string_view old_key) {
    std::string value;
    append_varint(&value, old_key.size());
    return value.append(old_key);
  }
  static bool decode(std::string_view value, LoggedClaim *out) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(value.data());
    uint64_t old_key_bytes;
    const size_t length = load_varint(bytes, bytes + value.size(), &old_key_bytes);
    if (length == 0 || old_key_bytes > value.size() - length || old_key_bytes < codec::kKeyStartLength)
      return false;
    out->old_key = value.substr(length, old_key_bytes);
    out->row = value.substr(length + old_key_bytes);
    return true;
  }
};

}  // namespace

std::string RekeySource::claim(std::string_view new_key, std::string_view old_key) const {
  std::string key = claims_start;
  key.append(new_key.substr(codec::kKeyStartLength)).append(old_key.substr(codec::kKeyStartLength));
  return key;
}

OnlineRekey::OnlineRekey(std::shared_ptr<const Layout> layout, RekeySource source, size_t record_bytes)
    : OnlineBuild(std::move(layout)), source_(std::move(source)), record_(record_bytes) {}

// An update is logged even if the new key stays: the row is another one.
Status OnlineRekey::log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) {
  Change removed, added{true};
  if (before.record != nullptr) {
    layout_->primary_key(before.record, 0, &removed.key);
    removed.value = LoggedClaim::encode(*before.primary_key);
  }
  if (after.record != nullptr) {
    layout_->primary_key(after.record, 0, &added.key);
    added.value = LoggedClaim::encode(*after.primary_key);
  }
  const bool stays = after.record != nullptr && removed.key == added.key && removed.value == added.value;
  if (before.record != nullptr && !stays) ATOLL_RETURN_IF_ERROR(append(transaction, removed));
  if (after.record == nullptr) return Status::Ok();
  layout_->row().pack(after.record, &added.value);
  return append(transaction, added);
}

Status OnlineRekey::apply(const std::vector<Change> &changes) {
  rocksdb::ColumnFamilyHandle *handle = layout_->family()->handle();
  rocksdb::WriteBatch claims;
  std::set<std::string> touched;
  for (const Change &change : changes) {
    LoggedClaim logged;
    if (!LoggedClaim::decode(change.value, &logged))
      return Status(Code::kCorruption, "a record of the change log of an ALTER cannot be read");
    const std::string claim = source_.claim(change.key, logged.old_key);
    const rocksdb::Status added =
        change.put ? claims.Put(handle, claim, logged.row) : claims.Delete(handle, claim);
    if (!added.ok()) return lsm::from_rocksdb(added);
    touched.insert(change.key);
  }
  ATOLL_RETURN_IF_ERROR(write(&claims));
  rocksdb::WriteBatch settled;
  unique_starts_.clear();
  for (const std::string &key : touched) ATOLL_RETURN_IF_ERROR(settle(key, &settled));
  ATOLL_RETURN_IF_ERROR(write(&settled));
  const auto primary = static_cast<size_t>(layout_->primary());
  for (const std::string &key : touched)
    ATOLL_RETURN_IF_ERROR(suspect_if_double(primary, source_.claim(key, source_.rows_start)));
  for (const auto &[index, start] : unique_starts_) ATOLL_RETURN_IF_ERROR(suspect_if_double(index, start));
  return Status::Ok();
}

Status OnlineRekey::settle(const std::string &key, rocksdb::WriteBatch *batch) {
  std::string wanted, current;
  ATOLL_RETURN_IF_ERROR(find_claimed_row(key, &wanted));
  ATOLL_RETURN_IF_ERROR(get(key, &current));
  if (wanted == current) return Status::Ok();
  if (!current.empty()) ATOLL_RETURN_IF_ERROR(change_entries(key, current, false, batch));
  if (wanted.empty()) return lsm::from_rocksdb(batch->Delete(layout_->family()->handle(), key));
  ATOLL_RETURN_IF_ERROR(change_entries(key, wanted, true, batch));
  return lsm::from_rocksdb(batch->Put(layout_->family()->handle(), key, wanted));
}

// Empty if nobody claims the key.
Status OnlineRekey::find_claimed_row(const std::string &key, std::string *row) {
  row->clear();
  const std::string start = source_.claim(key, source_.rows_start);
  bool unique = true;
  std::string claim;
  ATOLL_RETURN_IF_ERROR(is_unique(start, &unique, &claim));
  if (claim.empty()) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(get(claim, row));
  if (!row->empty()) return Status::Ok();
  return read_scanned_row(key, source_.rows_start + claim.substr(start.size()), row);
}

// A row that has another new key by now is about to be logged so: until then nobody has the key.
Status OnlineRekey::read_scanned_row(const std::string &key, const std::string &old_key, std::string *row) {
  std::string stored;
  ATOLL_RETURN_IF_ERROR(get(old_key, &stored));
  if (stored.empty()) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(layout_->row().unpack(stored, nullptr, record_.data()));
  std::string key_now;
  layout_->primary_key(record_.data(), 0, &key_now);
  if (key_now == key) layout_->row().pack(record_.data(), row);
  return Status::Ok();
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

Status OnlineRekey::get(const std::string &key, std::string *value) const {
  value->clear();
  const rocksdb::Status found = main()->Get(rocksdb::ReadOptions(), layout_->family()->handle(), key, value);
  return found.IsNotFound() ? Status::Ok() : lsm::from_rocksdb(found);
}

// The clash of a new primary key is a claim, that of another index an entry.
void OnlineRekey::show_duplicate(uint8_t *record) {
  const bool is_claim = static_cast<int>(duplicate_index()) == layout_->primary();
  std::string row_key;
  if (is_claim) {
    const std::string_view parts = std::string_view(duplicate_key_).substr(codec::kKeyStartLength);
    size_t length = 0;
    const codec::KeyCodec &codec = *layout_->primary_index().codec;
    if (!codec.skip_parts(parts, codec.part_count(), &length).ok()) return;
    row_key = source_.rows_start + std::string(parts.substr(length));
  } else if (!layout_->primary_of_entry(duplicate_index(), duplicate_key_, &row_key).ok()) {
    return;
  }
  if (get(row_key, &shown_row_).ok() && !shown_row_.empty())
    (void)layout_->row().unpack(shown_row_, nullptr, record);
}

}  // namespace atoll::handler
