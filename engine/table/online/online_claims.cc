// See online_claims.h.
#include "table/online/online_claims.h"

#include <set>

#include "base/bytes.h"

namespace atoll::table {
namespace {

// The value of a log record: the length of the old key, the old key, and the row (empty: the row was
// removed).
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

// An update is logged even if the row keeps its new key, because the log must hold the row with its new
// values.
Status OnlineClaims::log_change(txn::Transaction *transaction, const RowImage &before,
                                const RowImage &after) {
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

Status OnlineClaims::apply(const std::vector<Change> &changes) {
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
  std::string row;
  for (const std::string &key : touched) {
    ATOLL_RETURN_IF_ERROR(find_claimed_row(key, &row));
    ATOLL_RETURN_IF_ERROR(settle(key, row, &settled));
  }
  ATOLL_RETURN_IF_ERROR(write_entries(&settled));
  const auto primary = static_cast<size_t>(layout_->primary());
  for (const std::string &key : touched)
    ATOLL_RETURN_IF_ERROR(suspect_if_double(primary, source_.claim(key, source_.rows_start)));
  return Status::Ok();
}

// *row: the row that has the first claim to `key`; empty if no row has a claim to it.
Status OnlineClaims::find_claimed_row(const std::string &key, std::string *row) {
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

// Reads the row that the scan saw under `old_key`. If the stored row now has a new key other than `key`, a
// transaction has just changed it, and its log records will become visible shortly. Until then no row has
// `key`.
Status OnlineClaims::read_scanned_row(const std::string &key, const std::string &old_key, std::string *row) {
  std::string stored;
  ATOLL_RETURN_IF_ERROR(get(old_key, &stored));
  if (stored.empty()) return Status::Ok();
  uint8_t *record = view_.record();
  ATOLL_RETURN_IF_ERROR(layout_->row().unpack(stored, nullptr, record));
  std::string key_now;
  layout_->primary_key(record, 0, &key_now);
  if (key_now == key) layout_->row().pack(record, row);
  return Status::Ok();
}

// If the duplicate is in the new primary key, two claims clash, and the row is read under the old key that
// the first claim holds. If it is in a secondary index, two entries clash.
void OnlineClaims::show_duplicate() {
  const bool is_claim = static_cast<int>(duplicate_index()) == layout_->primary();
  if (!is_claim) return OnlineRekey::show_duplicate();
  const std::string_view parts = std::string_view(duplicate_key_).substr(codec::kKeyStartLength);
  size_t length = 0;
  const codec::KeyCodec &codec = *layout_->primary_index().codec;
  if (codec.skip_parts(parts, codec.part_count(), &length).ok())
    view_.show_row(source_.rows_start + std::string(parts.substr(length)), nullptr, &shown_row_);
}

}  // namespace atoll::table
