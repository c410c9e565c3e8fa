#include <rocksdb/convenience.h>
#include <rocksdb/utilities/transaction_db.h>
#include <rocksdb/write_batch.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "cloudfs/guarded_files.h"
#include "lsm/load/bulk_load.h"
#include "lsm/database_impl.h"
#include "lsm/info_log.h"
#include "lsm/load/run_file.h"
#include "lsm/raw.h"

namespace atoll::lsm {
namespace {

namespace fs = std::filesystem;

Status directory_error(const std::string &path, const std::error_code &error) {
  const Code code = error == std::errc::no_space_on_device ? Code::kNoSpace : Code::kInvalid;
  return Status(code, "cannot create the directory " + path + ": " + error.message());
}

Status make_directory(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? directory_error(path, error) : Status::Ok();
}

Status wipe_directory(const std::string &path) {
  const std::error_code error = remove_tree(path);
  return error ? directory_error(path, error) : Status::Ok();
}

// When a TEMPORARY table is dropped whose files have fewer bytes than these, their space is left to RocksDB's
// ordinary compactions. Applications can make and drop small TEMPORARY tables in each of their requests.
constexpr uint64_t kTempReclaimBytesMin = 1 << 20;

// When one family's memtable is full, the other families are flushed with it if their memtables together have
// at most the size of one full memtable divided by this number.
constexpr uint64_t kCompanionsPart = 4;

// Does the same as TransactionDB::Open, step by step, and sets the size of the history to 0 in between.
// TransactionDB::Open makes RocksDB keep a history of flushed memtables for each family, for conflict checks
// that Atoll does not use. No option of that function turns the history off: even with the smallest history,
// a family that is not written any more keeps its last memtable until the database is closed.
rocksdb::Status open_rocksdb(rocksdb::DBOptions options, const std::string &directory,
                             std::vector<rocksdb::ColumnFamilyDescriptor> families,
                             std::vector<rocksdb::ColumnFamilyHandle *> *handles,
                             rocksdb::TransactionDB **out) {
  std::vector<size_t> compacting;
  rocksdb::TransactionDB::PrepareWrap(&options, &families, &compacting);
  for (rocksdb::ColumnFamilyDescriptor &family : families) {
    family.options.max_write_buffer_size_to_maintain = 0;
  }
  std::unique_ptr<rocksdb::DB> database;
  const rocksdb::Status status = rocksdb::DB::Open(options, directory, families, handles, &database);
  if (!status.ok()) return status;
  return rocksdb::TransactionDB::WrapDB(database.release(), transaction_options(), compacting, *handles, out);
}

// A key of the default family, which also has the markers of spilled transactions. No entry ever has this
// key; release_replayed_wals() deletes it to have a change that can be flushed.
constexpr std::string_view kReplayedKey = "replayed";

// Flushes the family. `wait` false: only starts the flush. If the family has been dropped in the meantime,
// nothing need be flushed, so the result is kOk.
Status flush_unless_dropped(rocksdb::DB *db, rocksdb::ColumnFamilyHandle *handle, bool wait) {
  rocksdb::FlushOptions options;
  options.allow_write_stall = true;
  options.wait = wait;
  const rocksdb::Status status = db->Flush(options, handle);
  return status.IsColumnFamilyDropped() ? Status::Ok() : from_rocksdb(status);
}

}  // namespace

Status Database::open(const DatabaseOptions &options, std::unique_ptr<Database> *out) {
  auto database = std::make_unique<DatabaseImpl>(options);
  ATOLL_RETURN_IF_ERROR(database->open());
  *out = std::move(database);
  return Status::Ok();
}

DatabaseImpl::DatabaseImpl(const DatabaseOptions &options)
    : options_(options),
      parts_(make_shared_parts(options)),
      errors_(std::make_shared<ErrorWatch>(options.log)),
      compactions_(std::make_shared<CompactionLog>()),
      companion_flush_(std::make_shared<CompanionFlush>(parts_.memtable_bytes / kCompanionsPart)),
      wal_sync_([this] { return from_rocksdb(main_->SyncWAL()); }) {}

DatabaseImpl::~DatabaseImpl() { close(); }

// ---- open and close ------------------------------------------------------------------------------

Status DatabaseImpl::open() {
  ATOLL_RETURN_IF_ERROR(prepare_directories());
  ATOLL_RETURN_IF_ERROR(open_main().with("opening the database in " + options_.local_dir));
  ATOLL_RETURN_IF_ERROR(open_temp().with("opening the temporary database in " + options_.temp_dir));
  errors_->start(base(Side::kMain));
  release_replayed_wals();
  return Status::Ok();
}

// RocksDB has flushed the changes that it replayed, but it still keeps the replayed WALs, for two reasons.
// With allow_2pc, RocksDB notes at each flush, but not at the end of a replay, which WALs it still needs. And
// RocksDB deletes the WALs of a former process only when it scans the directory, every six hours. Until then
// the store would upload these WALs again. So this function flushes one entry and makes RocksDB scan the
// directory: RocksDB does that when file deletions are enabled again. Errors are ignored, because no data is
// lost then.
void DatabaseImpl::release_replayed_wals() {
  rocksdb::VectorWalPtr wals;
  if (!base(Side::kMain)->GetSortedWalFiles(wals).ok()) return;
  if (std::none_of(wals.begin(), wals.end(), [](const auto &wal) { return wal->SizeFileBytes() > 0; }))
    return;
  rocksdb::WriteBatch batch;
  (void)batch.Delete(marker_handle(), kReplayedKey);
  if (!write_unlocked(&batch, false).ok()) return;
  rocksdb::DB *const main = base(Side::kMain);
  if (!flush_unless_dropped(main, marker_handle(), true).ok()) return;
  if (main->DisableFileDeletions().ok()) (void)main->EnableFileDeletions();
}

// Removes the files of bulk loads and temporary tables, which do not survive a restart.
Status DatabaseImpl::prepare_directories() {
  ATOLL_RETURN_IF_ERROR(make_directory(options_.local_dir));
  ATOLL_RETURN_IF_ERROR(wipe_directory(bulk_directory(options_.local_dir)));
  ATOLL_RETURN_IF_ERROR(wipe_directory(options_.temp_dir));
  return make_directory(options_.temp_dir);
}

Status DatabaseImpl::list_families(const rocksdb::DBOptions &options, std::vector<std::string> *names) {
  *names = {rocksdb::kDefaultColumnFamilyName};
  if (!env_->FileExists(options_.local_dir + "/CURRENT").ok()) return Status::Ok();  // a new database
  names->clear();
  return from_rocksdb(rocksdb::DB::ListColumnFamilies(options, options_.local_dir, names));
}

Status DatabaseImpl::open_main() {
  files_ = std::make_shared<cloudfs::GuardedFileSystem>(rocksdb::FileSystem::Default(), options_.local_dir,
                                                        options_.store);
  ATOLL_RETURN_IF_ERROR(files_->adopt_local_tables());
  env_ = rocksdb::NewCompositeEnv(files_);

  rocksdb::DBOptions db_options = main_database_options(options_, parts_);
  db_options.env = env_.get();
  db_options.info_log = make_info_log(options_.local_dir);
  db_options.listeners = {errors_, compactions_, companion_flush_};
  std::vector<std::string> names;
  ATOLL_RETURN_IF_ERROR(list_families(db_options, &names));
  parts_.filters_memtables = names.size() <= filtered_families_max(parts_);

  std::vector<rocksdb::ColumnFamilyHandle *> handles;
  rocksdb::TransactionDB *opened = nullptr;
  const rocksdb::Status status =
      open_rocksdb(db_options, options_.local_dir,
                   family_descriptors(names, options_.default_compression, parts_), &handles, &opened);
  if (!status.ok()) return from_rocksdb(status);
  main_.reset(opened);
  if (options_.store != nullptr)
    atoll_store_opened(options_.store, base(Side::kMain)->GetLatestSequenceNumber());
  files_->refuse_options_files();
  raise_open_files_limit();

  FamilyRegistry::Settings settings;
  settings.store = options_.store;
  settings.default_compression = options_.default_compression;
  settings.log = options_.log;
  families_ = std::make_unique<FamilyRegistry>(base(Side::kMain), &parts_, std::move(settings));
  families_->adopt(handles);
  reclaim_ = std::make_unique<RangeReclaim>(base(Side::kMain), options_.store);
  idle_flush_ = std::make_unique<IdleFlush>(
      base(Side::kMain), [this] { return families_->live(); }, IdleFlush::Settings());
  companion_flush_->start(base(Side::kMain), [this] { return families_->live(); });
  return open_fixed_families();
}

Status DatabaseImpl::open_fixed_families() {
  ATOLL_RETURN_IF_ERROR(families_->fixed(kCatalogFamilyName, &catalog_));
  return families_->fixed(kSharedFamilyName, &shared_);
}

// RocksDB was opened with the smallest limit, so that it read the metadata of at most two tables during open.
// From now on it is allowed to keep more tables open: a quarter of the process's limit of file descriptors,
// but at least 64 and at most 20,000.
void DatabaseImpl::raise_open_files_limit() {
  rlimit limit{};
  uint64_t files = 256;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    files = std::clamp<uint64_t>(limit.rlim_cur / 4, 64, 20000);
  }
  (void)base(Side::kMain)->SetDBOptions({{"max_open_files", std::to_string(files)}});
}

Status DatabaseImpl::open_temp() {
  rocksdb::DBOptions db_options = temp_database_options(options_, parts_);
  db_options.info_log = make_info_log(options_.temp_dir);
  const Compression fast{Algorithm::kLz4, 0};
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  descriptors.emplace_back(rocksdb::kDefaultColumnFamilyName, family_options(fast, parts_));
  std::vector<rocksdb::ColumnFamilyHandle *> handles;
  rocksdb::TransactionDB *opened = nullptr;
  const rocksdb::Status status =
      open_rocksdb(db_options, options_.temp_dir, std::move(descriptors), &handles, &opened);
  if (!status.ok()) return from_rocksdb(status);
  temp_.reset(opened);
  temp_family_ = std::make_unique<FamilyImpl>(handles.front(), Side::kTemp, base(Side::kTemp));
  temp_reclaim_ = std::make_unique<RangeReclaim>(base(Side::kTemp), nullptr);
  return Status::Ok();
}

Status DatabaseImpl::shut_down() {
  if (main_ == nullptr) return Status::Ok();
  stop_threads();
  const Status flushed = flush(nullptr);
  const Status synced = sync_wal();
  rocksdb::CancelAllBackgroundWork(base(Side::kMain), true);
  return flushed.ok() ? synced : flushed;
}

void DatabaseImpl::stop_threads() {
  if (idle_flush_) idle_flush_->stop();
  companion_flush_->stop();
  if (reclaim_) reclaim_->stop();
  if (temp_reclaim_) temp_reclaim_->stop();
  manual_compactions_.stop();
  if (families_) families_->stop();
}

void DatabaseImpl::close() {
  stop_threads();
  errors_->stop();
  idle_flush_.reset();
  reclaim_.reset();
  temp_reclaim_.reset();
  families_.reset();
  if (temp_ && temp_family_) (void)temp_->DestroyColumnFamilyHandle(temp_family_->handle());
  temp_family_.reset();
  temp_.reset();
  main_.reset();
}

// ---- creating, finding and dropping families -----------------------------------------------------

Status DatabaseImpl::create_family(const Compression &compression, Family **out) {
  return families_->create(compression, out);
}

bool DatabaseImpl::has_room_for_family() { return families_->live().size() < filtered_families_max(parts_); }

Family *DatabaseImpl::find_family(uint32_t id) { return families_->find(id); }

void DatabaseImpl::drop_family(uint32_t id) { families_->drop(id); }

void DatabaseImpl::reconcile_families(const std::function<bool(uint32_t id)> &is_known) {
  families_->reconcile(is_known);
}

// ---- deleting ranges, loading rows ---------------------------------------------------------------

uint64_t DatabaseImpl::oldest_snapshot() {
  uint64_t count = 0, oldest = 0;
  rocksdb::DB *main = base(Side::kMain);
  if (!main->GetIntProperty(rocksdb::DB::Properties::kNumSnapshots, &count) || count == 0) return UINT64_MAX;
  (void)main->GetIntProperty(rocksdb::DB::Properties::kOldestSnapshotSequence, &oldest);
  return oldest;
}

// Uses the base database, because TransactionDB refuses range deletions, which its locks do not cover. No
// lock is needed: the caller has changed the catalog, so no statement reaches the range any more.
Status DatabaseImpl::delete_range(Family *family, std::string_view begin, std::string_view end) {
  if (begin >= end) return Status::Ok();
  const rocksdb::Slice from(begin.data(), begin.size());
  const rocksdb::Slice to(end.data(), end.size());
  rocksdb::WriteOptions options;
  options.disableWAL = family->side() == Side::kTemp;
  options.sync = !options.disableWAL;  // no one would repeat a deletion that a crash lost
  rocksdb::WriteBatch batch;
  rocksdb::Status status = batch.DeleteRange(family->handle(), from, to);
  {
    const SharedLock gate(commit_gate_);
    if (status.ok()) status = Raw::of(family)->Write(options, &batch);
  }
  if (!status.ok()) return from_rocksdb(status);
  if (family->side() == Side::kMain)
    reclaim_->add(family, std::string(begin), std::string(end));
  else if (file_bytes(family, {from, to}) >= kTempReclaimBytesMin)
    temp_reclaim_->add(family, std::string(begin), std::string(end));
  return Status::Ok();
}

std::shared_ptr<SortBudget> DatabaseImpl::sort_budget(uint64_t bytes_max) {
  return std::make_shared<SortBudget>(std::min(bytes_max, options_.bulk_sort_bytes));
}

std::unique_ptr<BulkLoad> DatabaseImpl::bulk_load(Family *family, const Compression &compression,
                                                  std::shared_ptr<SortBudget> budget) {
  const bool is_main = family->side() == Side::kMain;
  BulkLoadSettings settings;
  settings.db = Raw::of(family);
  settings.rows = this;
  settings.family = family;
  settings.store = is_main ? options_.store : nullptr;
  const std::string parent = bulk_directory(is_main ? options_.local_dir : options_.temp_dir);
  settings.directory = parent + "/" + std::to_string(next_bulk_id_.fetch_add(1));
  rocksdb::Env *const env = is_main ? env_.get() : rocksdb::Env::Default();
  for (size_t kind = 0; kind < kStreamKinds; ++kind) {
    settings.file_options[kind] = bulk_file_options(compression, parts_, env, static_cast<StreamKind>(kind));
  }
  settings.threads = static_cast<size_t>(parts_.threads);
  settings.sort_budget = std::move(budget);
  return make_bulk_load(std::move(settings));
}

// ---- transactions larger than memory -----------------------------------------------------------------

rocksdb::Options DatabaseImpl::run_file_options() {
  return bulk_file_options(Compression{Algorithm::kLz4, 0}, parts_, env_.get(), StreamKind::kSought);
}

std::string DatabaseImpl::spill_directory() { return options_.local_dir + "/spill"; }

// The log is synced first, so that a power failure cannot lose commits that came before this ingestion. The
// gate keeps other threads from writing to the log between the calls of atoll_store_note_drop() and
// atoll_store_note_ddl(), which both refer to the end of the log.
Status DatabaseImpl::commit_ingestion(Ingestion *ingestion) {
  const ExclusiveLock gate(commit_gate_);
  ATOLL_RETURN_IF_ERROR(sync_wal());
  if (options_.store != nullptr) atoll_store_note_drop(options_.store);
  ATOLL_RETURN_IF_ERROR(ingestion->commit());
  if (options_.store != nullptr) atoll_store_note_ddl(options_.store);
  return Status::Ok();
}

// ---- flushing, compacting, reporting -------------------------------------------------------------

Status DatabaseImpl::flush(Family *family) {
  if (family == nullptr) return flush_all();
  rocksdb::FlushOptions options;
  options.allow_write_stall = true;
  return from_rocksdb(Raw::of(family)->Flush(options, family->handle()));
}

// Starts all flushes but the last one before it waits for the first one, so that their syncs overlap. The
// last flush runs alone, so that with it RocksDB notes in the MANIFEST that no older WAL is needed. If two
// flushes end together, each still sees the other's memtable. RocksDB then keeps the WALs until another
// flush, and the next start uploads them again.
Status DatabaseImpl::flush_all() {
  rocksdb::DB *const main = base(Side::kMain);
  const std::vector<rocksdb::ColumnFamilyHandle *> handles = families_with_memtables();
  for (size_t i = 0; i + 1 < handles.size(); ++i)
    ATOLL_RETURN_IF_ERROR(flush_unless_dropped(main, handles[i], false));
  for (rocksdb::ColumnFamilyHandle *handle : handles)
    ATOLL_RETURN_IF_ERROR(flush_unless_dropped(main, handle, true));
  return Status::Ok();
}

std::vector<rocksdb::ColumnFamilyHandle *> DatabaseImpl::families_with_memtables() {
  using Properties = rocksdb::DB::Properties;
  rocksdb::DB *const main = base(Side::kMain);
  std::vector<rocksdb::ColumnFamilyHandle *> handles;
  for (FamilyImpl *family : families_->live()) {
    rocksdb::ColumnFamilyHandle *const handle = family->handle();
    if (int_property(main, handle, Properties::kNumEntriesActiveMemTable) > 0 ||
        int_property(main, handle, Properties::kNumImmutableMemTable) > 0)
      handles.push_back(handle);
  }
  return handles;
}

Status DatabaseImpl::compact(Family *family, std::string_view begin, std::string_view end) {
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  options.max_subcompactions = static_cast<uint32_t>(parts_.threads);
  auto *used = static_cast<FamilyImpl *>(family);
  ++used->compactions;
  // The count goes down when the last copy of `work` is destroyed, even if the work never began.
  const std::shared_ptr<FamilyImpl> use(used, [](FamilyImpl *it) { --it->compactions; });
  auto work = [db = Raw::of(family), use, options, from = std::string(begin),
               to = std::string(end)](std::atomic<bool> *cancelled) mutable {
    options.canceled = cancelled;
    const rocksdb::Slice first(from);
    const rocksdb::Slice last(to);
    return db->CompactRange(options, use->handle(), from.empty() ? nullptr : &first,
                            to.empty() ? nullptr : &last);
  };
  return manual_compactions_.run(std::move(work));
}

Status DatabaseImpl::rewrite(uint64_t *last_former) {
  const uint64_t newest = newest_sequence();
  ATOLL_RETURN_IF_ERROR(flush_all());
  *last_former = 0;
  std::set<uint32_t> families;
  for (const TableFile &file : table_files()) {
    *last_former = std::max(*last_former, file.number);
    families.insert(file.family_id);
  }
  if (oldest_snapshot() < newest)
    return Status(Code::kUnavailable, "a transaction still reads former versions of rows");
  for (const uint32_t id : families) {
    Family *family = find_family(id);
    if (family == nullptr) continue;  // it was dropped
    const Status status = compact(family, "", "");
    if (!status.ok() && find_family(id) != nullptr) return status;
  }
  for (const TableFile &file : table_files())
    if (file.number <= *last_former)
      return Status(Code::kUnavailable,
                    "table file " + std::to_string(file.number) + " was not written anew");
  return renew_manifest();
}

// Begins a new MANIFEST, because the old one has the smallest and the largest key of each file that is gone.
// RocksDB begins a new one at a write when the old one exceeds its limit. The new one has all files from
// before this write, so the write must not be one that removes a file that matters.
Status DatabaseImpl::renew_manifest() {
  rocksdb::DB *const main = base(Side::kMain);
  const rocksdb::DBOptions options = main->GetDBOptions();
  const auto set_limit = [main](uint64_t bytes, int percent) {
    // RocksDB changes the options before it tries to write an OPTIONS file. cloudfs refuses such files.
    (void)main->SetDBOptions({{"max_manifest_file_size", std::to_string(bytes)},
                              {"max_manifest_space_amp_pct", std::to_string(percent)}});
  };
  set_limit(1, 0);
  const Status status = compact(catalog_, "", "");
  set_limit(options.max_manifest_file_size, options.max_manifest_space_amp_pct);
  return status;
}

Status DatabaseImpl::background_error() { return errors_->last_error(); }

bool DatabaseImpl::holds_writers_back() {
  using Properties = rocksdb::DB::Properties;
  uint64_t stopped = 0;
  uint64_t delayed_rate = 0;
  (void)base(Side::kMain)->GetIntProperty(Properties::kIsWriteStopped, &stopped);
  (void)base(Side::kMain)->GetIntProperty(Properties::kActualDelayedWriteRate, &delayed_rate);
  return stopped != 0 || delayed_rate != 0;
}

void DatabaseImpl::set_block_cache_bytes(uint64_t bytes) {
  parts_.block_cache->SetCapacity(block_cache_capacity(bytes));
}

uint64_t DatabaseImpl::block_cache_bytes() const { return parts_.block_cache->GetCapacity(); }

uint64_t DatabaseImpl::block_cache_bytes_used() const { return parts_.block_cache->GetUsage(); }

}  // namespace atoll::lsm
