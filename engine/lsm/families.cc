#include "lsm/families.h"

#include <algorithm>

#include "base/border/border.h"
#include "cloudfs/cloud_file_system.h"

namespace atoll::lsm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBatchFamilies = 16;  // families that one call of RocksDB creates for the pool
// When the pool has fewer families than this, it is refilled, so that several CREATE TABLE in a row find a
// family that is ready.
constexpr size_t kPoolLow = 6;
constexpr auto kRetryInterval = std::chrono::seconds(5);  // after a drop or a refill that has failed

}  // namespace

uint64_t int_property(rocksdb::DB *db, rocksdb::ColumnFamilyHandle *handle, const std::string &name) {
  uint64_t value = 0;
  return db->GetIntProperty(handle, name, &value) ? value : 0;
}

std::vector<rocksdb::SstFileMetaData> files_in(rocksdb::DB *db, rocksdb::ColumnFamilyHandle *handle,
                                               std::string_view begin, std::string_view end) {
  rocksdb::ColumnFamilyMetaData levels;
  db->GetColumnFamilyMetaData(handle, &levels);
  std::vector<rocksdb::SstFileMetaData> files;
  for (const rocksdb::LevelMetaData &level : levels.levels) {
    for (const rocksdb::SstFileMetaData &file : level.files) {
      if (file.largestkey >= begin && file.smallestkey < end) files.push_back(file);
    }
  }
  return files;
}

FamilyRegistry::FamilyRegistry(rocksdb::DB *db, const SharedParts *parts, Settings settings)
    : db_(db),
      parts_(parts),
      settings_(std::move(settings)),
      task_("atoll-families", RepeatedTask::kNoRhythm, [this] { work(); }) {}

FamilyRegistry::~FamilyRegistry() {
  stop();
  for (auto &[id, family] : families_) {
    rocksdb::ColumnFamilyHandle *handle = family->handle();
    if (handle != nullptr && handle != db_->DefaultColumnFamily()) {
      (void)db_->DestroyColumnFamilyHandle(handle);
    }
  }
}

FamilyImpl *FamilyRegistry::insert(rocksdb::ColumnFamilyHandle *handle, FamilyImpl::State state) {
  auto family = std::make_unique<FamilyImpl>(handle, Side::kMain, db_);
  family->state_ = state;
  FamilyImpl *raw = family.get();
  if (const auto name = parse_family_name(raw->name())) {
    next_sequence_ = std::max(next_sequence_, name->sequence + 1);
  }
  families_[raw->id()] = std::move(family);
  return raw;
}

void FamilyRegistry::adopt(const std::vector<rocksdb::ColumnFamilyHandle *> &handles) {
  MutexLock lock(mutex_);
  for (rocksdb::ColumnFamilyHandle *handle : handles) {
    const bool ours = parse_family_name(handle->GetName()).has_value();
    insert(handle, ours ? FamilyImpl::State::kUnclassified : FamilyImpl::State::kUsed);
  }
}

Status FamilyRegistry::fixed(std::string_view name, Family **out) {
  MutexLock create_lock(create_mutex_);
  {
    MutexLock lock(mutex_);
    for (auto &[id, family] : families_) {
      if (family->name() != name) continue;
      *out = family.get();
      return Status::Ok();
    }
  }
  rocksdb::ColumnFamilyHandle *handle = nullptr;
  const auto options = family_options_by_name(name, settings_.default_compression, *parts_);
  const rocksdb::Status created = db_->CreateColumnFamily(options, std::string(name), &handle);
  if (handle == nullptr) return from_rocksdb(created).with("creating a column family");
  note_ddl();
  MutexLock lock(mutex_);
  *out = insert(handle, FamilyImpl::State::kUsed);
  return Status::Ok();
}

void FamilyRegistry::note_ddl() {
  if (settings_.store != nullptr) atoll_store_note_ddl(settings_.store);
}

// ---- creating and finding families ---------------------------------------------------------------

FamilyImpl *FamilyRegistry::take_pooled(const Compression &compression) {
  MutexLock lock(mutex_);
  if (compression != settings_.default_compression || pool_.empty()) return nullptr;
  FamilyImpl *family = pool_.front();
  pool_.pop_front();
  family->state_ = FamilyImpl::State::kUsed;
  if (pool_.size() < kPoolLow) task_.ask();
  return family;
}

Status FamilyRegistry::create(const Compression &compression, Family **out) {
  if (FamilyImpl *family = take_pooled(compression)) {
    *out = family;
    return Status::Ok();
  }
  MutexLock create_lock(create_mutex_);
  if (FamilyImpl *family = take_pooled(compression)) {  // another thread has just filled the pool
    *out = family;
    return Status::Ok();
  }
  const bool pooled = compression == settings_.default_compression;
  std::vector<FamilyImpl *> created;
  ATOLL_RETURN_IF_ERROR(create_batch(compression, pooled ? kBatchFamilies : 1, &created));
  MutexLock lock(mutex_);
  created.front()->state_ = FamilyImpl::State::kUsed;
  pool_.insert(pool_.end(), created.begin() + 1, created.end());
  *out = created.front();
  return Status::Ok();
}

// The new families are in state kPooled, but not in `pool_` yet: the caller adds those that it does not use.
Status FamilyRegistry::create_batch(const Compression &compression, size_t count,
                                    std::vector<FamilyImpl *> *created) {
  std::vector<std::string> names;
  {
    MutexLock lock(mutex_);
    for (size_t i = 0; i < count; ++i) names.push_back(format_family_name({next_sequence_++, compression}));
  }
  std::vector<rocksdb::ColumnFamilyHandle *> handles;
  const rocksdb::Status status =
      db_->CreateColumnFamilies(family_options(compression, *parts_), names, &handles);
  if (!handles.empty()) note_ddl();
  MutexLock lock(mutex_);
  for (rocksdb::ColumnFamilyHandle *handle : handles) {
    created->push_back(insert(handle, FamilyImpl::State::kPooled));
  }
  if (created->empty()) return from_rocksdb(status).with("creating a column family");
  return Status::Ok();
}

Status FamilyRegistry::import(const Compression &compression, const rocksdb::ExportImportFilesMetaData &files,
                              Family **out) {
  MutexLock create_lock(create_mutex_);
  std::string name;
  {
    const MutexLock lock(mutex_);
    name = format_family_name({next_sequence_++, compression});
  }
  rocksdb::ImportColumnFamilyOptions options;
  // RocksDB then links the files instead of copying them. Afterwards it removes the paths that it was given.
  // They lie in shared_directory(), so no real file is removed.
  options.move_files = true;
  rocksdb::ColumnFamilyHandle *handle = nullptr;
  const cloudfs::OptionsFilesAllowed allowed;
  const rocksdb::Status status =
      db_->CreateColumnFamilyWithImport(family_options(compression, *parts_), name, options, files, &handle);
  note_ddl();
  if (handle == nullptr) return from_rocksdb(status).with("sharing table files");
  const MutexLock lock(mutex_);
  *out = insert(handle, FamilyImpl::State::kUsed);
  return Status::Ok();
}

Family *FamilyRegistry::find(uint32_t id) {
  MutexLock lock(mutex_);
  const auto found = families_.find(id);
  if (found == families_.end() || found->second->state_ == FamilyImpl::State::kDropped) return nullptr;
  return found->second.get();
}

std::vector<FamilyImpl *> FamilyRegistry::live() {
  MutexLock lock(mutex_);
  std::vector<FamilyImpl *> result;
  for (auto &[id, family] : families_) {
    if (family->state_ != FamilyImpl::State::kDropped) result.push_back(family.get());
  }
  return result;
}

size_t FamilyRegistry::pooled() {
  MutexLock lock(mutex_);
  return pool_.size();
}

// ---- dropping families ---------------------------------------------------------------------------

void FamilyRegistry::drop(uint32_t id) {
  MutexLock lock(mutex_);
  const auto found = families_.find(id);
  if (found == families_.end() || found->second->state_ == FamilyImpl::State::kDropped) return;
  found->second->state_ = FamilyImpl::State::kDropped;
  to_drop_.push_back(found->second.get());
  task_.ask();
}

bool FamilyRegistry::is_empty(FamilyImpl *family) {
  using Properties = rocksdb::DB::Properties;
  rocksdb::ColumnFamilyHandle *handle = family->handle();
  return int_property(db_, handle, Properties::kLiveSstFilesSize) == 0 &&
         int_property(db_, handle, Properties::kNumEntriesActiveMemTable) == 0 &&
         int_property(db_, handle, Properties::kNumEntriesImmMemTables) == 0;
}

void FamilyRegistry::reconcile(const std::function<bool(uint32_t id)> &is_known) {
  std::vector<FamilyImpl *> unclassified;
  {
    MutexLock lock(mutex_);
    for (auto &[id, family] : families_) {
      if (family->state_ == FamilyImpl::State::kUnclassified) unclassified.push_back(family.get());
    }
  }
  for (FamilyImpl *family : unclassified) {
    const bool known = is_known(family->id());
    const auto name = parse_family_name(family->name());
    const bool reusable = name && name->compression == settings_.default_compression && is_empty(family);
    MutexLock lock(mutex_);
    if (known) {
      family->state_ = FamilyImpl::State::kUsed;
    } else if (reusable) {
      family->state_ = FamilyImpl::State::kPooled;
      pool_.push_back(family);
    } else {
      family->state_ = FamilyImpl::State::kDropped;
      to_drop_.push_back(family);
    }
  }
  MutexLock lock(mutex_);
  reconciled_ = true;
  task_.ask();
}

// ---- the background task -------------------------------------------------------------------------

void FamilyRegistry::work() {
  drop_queued();
  if (*task_.stopping()) return;
  refill();
  release_handles();
}

void FamilyRegistry::drop_queued() {
  MutexLock lock(mutex_);
  while (!to_drop_.empty() && !*task_.stopping()) {
    FamilyImpl *family = to_drop_.front();
    lock.unlock();
    if (!drop_now(family)) return task_.ask(kRetryInterval);
    lock.lock();
    to_drop_.pop_front();
    to_release_.emplace_back(Clock::now() + settings_.release_delay, family);
  }
}

// RocksDB returns an error even when it has dropped the family, because cloudfs refuses the OPTIONS file that
// RocksDB then writes (FAMILY-3). So this function tries a failed drop a second time: if the family is gone
// already, RocksDB refuses the second attempt as an invalid argument.
bool FamilyRegistry::drop_now(FamilyImpl *family) {
  if (settings_.store != nullptr) atoll_store_note_drop(settings_.store);
  rocksdb::Status status = db_->DropColumnFamily(family->handle());
  if (!status.ok()) status = db_->DropColumnFamily(family->handle());
  if (status.ok() || status.IsInvalidArgument()) {
    note_ddl();
    return true;
  }
  if (settings_.log) settings_.log(ATOLL_LOG_WARNING, "dropping a family: " + status.ToString());
  return false;
}

void FamilyRegistry::refill() {
  {
    const MutexLock lock(mutex_);
    if (!reconciled_ || pool_.size() >= kPoolLow) return;
  }
  std::vector<FamilyImpl *> created;
  Status status;
  {
    MutexLock create_lock(create_mutex_);
    status = create_batch(settings_.default_compression, kBatchFamilies, &created);
  }
  {
    const MutexLock lock(mutex_);
    pool_.insert(pool_.end(), created.begin(), created.end());
  }
  if (status.ok()) return;
  if (settings_.log) settings_.log(ATOLL_LOG_WARNING, status.message());
  task_.ask(kRetryInterval);
}

// Releases the handles of families that were dropped a while ago. A reader that still asks such a family for
// its handle gets the handle of the default family, which has no rows.
void FamilyRegistry::release_handles() {
  MutexLock lock(mutex_);
  while (!to_release_.empty()) {
    const auto [due, family] = to_release_.front();
    if (const auto left = due - Clock::now(); left > Clock::duration::zero())
      return task_.ask(std::chrono::ceil<std::chrono::milliseconds>(left));
    to_release_.pop_front();
    if (family->compactions > 0) {
      to_release_.emplace_back(Clock::now() + settings_.release_delay, family);
      continue;
    }
    lock.unlock();
    (void)db_->DestroyColumnFamilyHandle(family->handle_.exchange(db_->DefaultColumnFamily()));
    lock.lock();
  }
}

}  // namespace atoll::lsm
