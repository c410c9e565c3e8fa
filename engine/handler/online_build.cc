// See online_build.h.
#include "handler/online_build.h"

#include <rocksdb/write_batch.h>

#include "base/bytes.h"
#include "handler/temporary_tables.h"
#include "plugin/instance.h"

namespace atoll::handler {
namespace {

constexpr size_t kBatchBytes = 1 << 20;
constexpr size_t kRecordHeaderBytes = 1 + 2 + 4;  // put or remove, index, length of the key

void append_big_endian(uint64_t number, size_t bytes, std::string *out) {
  for (size_t shift = bytes * 8; shift > 0; shift -= 8)
    out->push_back(static_cast<char>(number >> (shift - 8)));
}

std::unique_ptr<rocksdb::Iterator> iterate(rocksdb::DB *db, lsm::Family *family, const rocksdb::Slice *begin,
                                           const rocksdb::Slice *end) {
  rocksdb::ReadOptions options;
  options.iterate_lower_bound = begin;
  options.iterate_upper_bound = end;
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options, family->handle()));
  it->SeekToFirst();
  return it;
}

}  // namespace

// One change of one entry, as the log's value holds it.
struct OnlineBuild::Record {
  bool put = false;
  uint16_t index = 0;
  std::string_view key, value;

  static bool parse(std::string_view bytes, Record *out) {
    if (bytes.size() < kRecordHeaderBytes) return false;
    const auto *header = reinterpret_cast<const uint8_t *>(bytes.data());
    const uint32_t key_length = load_le<uint32_t>(header + 3);
    if (bytes.size() - kRecordHeaderBytes < key_length) return false;
    out->put = header[0] != 0;
    out->index = load_le<uint16_t>(header + 1);
    out->key = bytes.substr(kRecordHeaderBytes, key_length);
    out->value = bytes.substr(kRecordHeaderBytes + key_length);
    return true;
  }
};

struct OnlineBuild::Batch {
  rocksdb::WriteBatch entries, log;
  std::vector<std::pair<size_t, std::string>> unique_starts;  // of entries put: index, start
};

OnlineBuild::OnlineBuild(std::shared_ptr<const Layout> layout, std::vector<size_t> indexes)
    : layout_(std::move(layout)),
      indexes_(std::move(indexes)),
      database_(plugin::instance()->database.get()) {
  append_big_endian(TemporaryTables::take_prefix(), 4, &log_start_);
  log_end_ = codec::key_after_prefix(log_start_);
}

OnlineBuild::~OnlineBuild() {
  // What cannot be removed goes with the temp database.
  (void)database_->delete_range(database_->temp_family(), log_start_, log_end_);
}

// ---- writers -------------------------------------------------------------------------------------

Status OnlineBuild::log(txn::Transaction *transaction, const RowImage &before, const RowImage &after) {
  if (closed_.load(std::memory_order_acquire)) return Status::Ok();
  std::string old_key, old_value, key, value;
  bool has_null = false;
  for (const size_t i : indexes_) {
    if (before.record != nullptr)
      layout_->secondary_entry(i, before.record, *before.primary_key, &old_key, &old_value, &has_null);
    if (after.record != nullptr)
      layout_->secondary_entry(i, after.record, *after.primary_key, &key, &value, &has_null);
    const bool both = before.record != nullptr && after.record != nullptr;
    if (both && old_key == key && old_value == value) continue;
    if (before.record != nullptr && !(both && old_key == key))
      ATOLL_RETURN_IF_ERROR(append(transaction, i, false, old_key, {}));
    if (after.record != nullptr) ATOLL_RETURN_IF_ERROR(append(transaction, i, true, key, value));
  }
  return Status::Ok();
}

Status OnlineBuild::append(txn::Transaction *transaction, size_t index, bool put, std::string_view key,
                           std::string_view value) {
  std::string log_key = log_start_;
  append_big_endian(next_number_.fetch_add(1), 8, &log_key);
  std::string record(kRecordHeaderBytes, '\0');
  auto *header = reinterpret_cast<uint8_t *>(record.data());
  header[0] = put ? 1 : 0;
  store_le<uint16_t>(header + 1, static_cast<uint16_t>(index));
  store_le<uint32_t>(header + 3, static_cast<uint32_t>(key.size()));
  record.append(key).append(value);
  return transaction->put(database_->temp_family(), log_key, record);
}

// ---- ALTER ---------------------------------------------------------------------------------------

Status OnlineBuild::replay(const std::function<bool()> &progress, uint64_t *records) {
  *records = 0;
  const rocksdb::Slice begin(log_start_), end(log_end_);
  lsm::Family *log_family = database_->temp_family();
  auto it = iterate(database_->db(lsm::Side::kTemp), log_family, &begin, &end);
  Batch batch;
  for (; it->Valid(); it->Next()) {
    Record record;
    if (!Record::parse({it->value().data(), it->value().size()}, &record) ||
        record.index >= layout_->index_count())
      return Status(Code::kCorruption, "a record of the change log of an index build cannot be read");
    rocksdb::ColumnFamilyHandle *handle = layout_->family()->handle();
    rocksdb::Status added = record.put ? batch.entries.Put(handle, record.key, record.value)
                                       : batch.entries.Delete(handle, record.key);
    if (added.ok()) added = batch.log.Delete(log_family->handle(), it->key());
    if (!added.ok()) return lsm::from_rocksdb(added);
    if (record.put && layout_->index(record.index).unique) {
      const size_t length = layout_->unique_length(record.index, record.key);
      if (length != 0) batch.unique_starts.emplace_back(record.index, record.key.substr(0, length));
    }
    ++*records;
    if (batch.entries.GetDataSize() < kBatchBytes) continue;
    ATOLL_RETURN_IF_ERROR(apply(&batch));
    if (!progress()) return Status(Code::kInterrupted, "");
  }
  ATOLL_RETURN_IF_ERROR(lsm::from_rocksdb(it->status()));
  return apply(&batch);
}

// First the entries: a record that is applied twice does no harm.
Status OnlineBuild::apply(Batch *batch) {
  if (batch->entries.Count() == 0) return Status::Ok();
  rocksdb::DB *main = database_->db(layout_->family()->side())->GetBaseDB();
  ATOLL_RETURN_IF_ERROR(lsm::from_rocksdb(main->Write(rocksdb::WriteOptions(), &batch->entries)));
  ATOLL_RETURN_IF_ERROR(find_suspects(*batch));
  rocksdb::WriteOptions without_log;
  without_log.disableWAL = true;
  rocksdb::DB *temp = database_->db(lsm::Side::kTemp)->GetBaseDB();
  const Status status = lsm::from_rocksdb(temp->Write(without_log, &batch->log));
  *batch = Batch();
  return status;
}

Status OnlineBuild::find_suspects(const Batch &batch) {
  for (const auto &[index, start] : batch.unique_starts) {
    bool unique = true;
    std::string first;
    ATOLL_RETURN_IF_ERROR(is_unique(start, &unique, &first));
    if (!unique) suspects_.emplace(index, start);
  }
  return Status::Ok();
}

// Is there at most one entry that begins with `start`?
Status OnlineBuild::is_unique(std::string_view start, bool *unique, std::string *first) {
  const std::string after = codec::key_after_prefix(start);
  const rocksdb::Slice begin(start.data(), start.size()), end(after);
  auto it = iterate(database_->db(layout_->family()->side()), layout_->family(), &begin, &end);
  if (it->Valid()) {
    first->assign(it->key().data(), it->key().size());
    it->Next();
  }
  *unique = !it->Valid();
  return lsm::from_rocksdb(it->status());
}

Status OnlineBuild::finish(const std::function<bool()> &progress) {
  uint64_t records = 0;
  ATOLL_RETURN_IF_ERROR(replay(progress, &records));
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

}  // namespace atoll::handler
