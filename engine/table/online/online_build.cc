// See online_build.h.
#include "table/online/online_build.h"

#include "base/bytes.h"

namespace atoll::table {
namespace {

constexpr size_t kBatchBytes = 1 << 20;
constexpr size_t kRecordHeaderBytes = 1 + 4;  // 1 byte: put or removal; 4 bytes: length of the key

void append_big_endian(uint64_t number, size_t bytes, std::string *out) {
  for (size_t shift = bytes * 8; shift > 0; shift -= 8)
    out->push_back(static_cast<char>(number >> (shift - 8)));
}

std::unique_ptr<rocksdb::Iterator> iterate(const lsm::Family *family, const rocksdb::Slice *begin,
                                           const rocksdb::Slice *end) {
  rocksdb::ReadOptions options;
  options.iterate_lower_bound = begin;
  options.iterate_upper_bound = end;
  std::unique_ptr<rocksdb::Iterator> it = family->iterator(options);
  it->SeekToFirst();
  return it;
}

}  // namespace

OnlineBuild::OnlineBuild(Plan plan, Resources resources, BuildView *view)
    : layout_(std::move(plan.layout)),
      indexes_(std::move(plan.indexes)),
      view_(*view),
      resources_(std::move(resources)) {
  append_big_endian(resources_.log_prefix, 4, &log_start_);
  log_end_ = codec::key_after_prefix(log_start_);
}

OnlineBuild::~OnlineBuild() {
  // If this fails, the log stays until the temp database is deleted at the next start.
  (void)resources_.families->delete_range(resources_.rows->temp_family(), log_start_, log_end_);
}

Status OnlineBuild::write(rocksdb::WriteBatch *batch) const {
  ATOLL_RETURN_IF_ERROR(resources_.before_write());
  const SharedLock gate(*resources_.rows->commit_gate());
  return lsm::from_rocksdb(resources_.rows->write(lsm::Side::kMain, rocksdb::WriteOptions(), batch));
}

// ---- Logging changes: called by writers ----------------------------------------------------------

Status OnlineBuild::log(txn::Transaction *transaction, const RowImage &before, const RowImage &after) {
  if (closed_.load(std::memory_order_acquire)) return Status::Ok();
  return log_change(transaction, before, after);
}

Status OnlineBuild::append(txn::Transaction *transaction, const Change &change) {
  std::string log_key = log_start_;
  append_big_endian(next_number_.fetch_add(1), 8, &log_key);
  std::string record(kRecordHeaderBytes, '\0');
  auto *header = reinterpret_cast<uint8_t *>(record.data());
  header[0] = change.put ? 1 : 0;
  store_le<uint32_t>(header + 1, static_cast<uint32_t>(change.key.size()));
  record.append(change.key).append(change.value);
  return transaction->put(resources_.rows->temp_family(), log_key, record);
}

// ---- Replaying the log: called by the ALTER ------------------------------------------------------

Status OnlineBuild::replay(uint64_t *records) {
  *records = 0;
  const rocksdb::Slice begin(log_start_), end(log_end_);
  auto it = iterate(resources_.rows->temp_family(), &begin, &end);
  std::vector<Change> changes;
  std::vector<std::string> log_keys;
  size_t bytes = 0;
  for (; it->Valid(); it->Next()) {
    const std::string_view record(it->value().data(), it->value().size());
    const auto *header = reinterpret_cast<const uint8_t *>(record.data());
    const bool whole = record.size() >= kRecordHeaderBytes;
    const uint32_t key_bytes = whole ? load_le<uint32_t>(header + 1) : 0;
    if (!whole || record.size() - kRecordHeaderBytes < key_bytes || key_bytes < codec::kKeyStartLength)
      return Status(Code::kCorruption, "a record of the change log of an ALTER cannot be read");
    changes.push_back({header[0] != 0, std::string(record.substr(kRecordHeaderBytes, key_bytes)),
                       std::string(record.substr(kRecordHeaderBytes + key_bytes))});
    log_keys.push_back(it->key().ToString());
    ++*records;
    bytes += record.size() + log_keys.back().size();
    if (bytes < kBatchBytes) continue;
    ATOLL_RETURN_IF_ERROR(apply_and_forget(&changes, &log_keys));
    bytes = 0;
    if (view_.is_unwanted()) return Status(Code::kInterrupted, "");
  }
  ATOLL_RETURN_IF_ERROR(lsm::from_rocksdb(it->status()));
  return apply_and_forget(&changes, &log_keys);
}

// Applies changes, and only then removes them from the log. If the removal fails, the changes are applied
// once more, which does no harm.
Status OnlineBuild::apply_and_forget(std::vector<Change> *changes, std::vector<std::string> *log_keys) {
  if (changes->empty()) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(apply(*changes));
  rocksdb::WriteBatch applied;
  for (const std::string &key : *log_keys)
    (void)applied.Delete(resources_.rows->temp_family()->handle(), key);
  rocksdb::WriteOptions without_log;
  without_log.disableWAL = true;
  changes->clear();
  log_keys->clear();
  return lsm::from_rocksdb(resources_.rows->write(lsm::Side::kTemp, without_log, &applied));
}

Status OnlineBuild::change_entries(const codec::RowCodec &codec, std::string_view row,
                                   std::string_view primary_key, bool put, rocksdb::WriteBatch *batch) {
  uint8_t *record = view_.record();
  ATOLL_RETURN_IF_ERROR(codec.unpack(row, nullptr, record));
  ATOLL_RETURN_IF_ERROR(view_.compute());
  rocksdb::ColumnFamilyHandle *handle = layout_->family()->handle();
  for (const size_t i : indexes_) {
    if (layout_->is_primary(i)) continue;
    bool has_null = false;
    layout_->secondary_entry(i, record, primary_key, &entry_key_, &entry_value_, &has_null);
    const rocksdb::Status changed =
        put ? batch->Put(handle, entry_key_, entry_value_) : batch->Delete(handle, entry_key_);
    if (!changed.ok()) return lsm::from_rocksdb(changed);
    if (!put || !layout_->index(i).unique) continue;
    const size_t length = layout_->unique_length(i, entry_key_);
    if (length != 0) unique_starts_.emplace_back(i, entry_key_.substr(0, length));
  }
  return Status::Ok();
}

Status OnlineBuild::write_entries(rocksdb::WriteBatch *batch) {
  ATOLL_RETURN_IF_ERROR(write(batch));
  for (const auto &[index, start] : unique_starts_) ATOLL_RETURN_IF_ERROR(suspect_if_double(index, start));
  unique_starts_.clear();
  return Status::Ok();
}

Status OnlineBuild::suspect_if_double(size_t index, const std::string &start) {
  bool unique = true;
  std::string first;
  ATOLL_RETURN_IF_ERROR(is_unique(start, &unique, &first));
  if (!unique) suspects_.emplace(index, start);
  return Status::Ok();
}

Status OnlineBuild::is_unique(std::string_view start, bool *unique, std::string *first) const {
  const std::string after = codec::key_after_prefix(start);
  const rocksdb::Slice begin(start.data(), start.size()), end(after);
  auto it = iterate(layout_->family(), &begin, &end);
  first->clear();
  if (it->Valid()) {
    first->assign(it->key().data(), it->key().size());
    it->Next();
  }
  *unique = !it->Valid();
  return lsm::from_rocksdb(it->status());
}

void OnlineBuild::show_duplicate() {
  std::string row_key;
  (void)layout_->primary_of_entry(duplicate_index_, duplicate_key_, &row_key);
  view_.show_row(row_key, nullptr, &shown_row_);
}

Status OnlineBuild::finish() {
  uint64_t records = 0;
  ATOLL_RETURN_IF_ERROR(replay(&records));
  if (const char *reason = spoiled_.load(std::memory_order_acquire)) return Status(Code::kInvalid, reason);
  for (const auto &[index, start] : suspects_) {
    bool unique = true;
    ATOLL_RETURN_IF_ERROR(is_unique(start, &unique, &duplicate_key_));
    if (unique) continue;
    duplicate_index_ = index;
    return Status(Code::kDuplicate, "");
  }
  return Status::Ok();
}

}  // namespace atoll::table
