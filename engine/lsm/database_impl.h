// The implementation of Database: the two databases of one server. The classes that it uses are in other
// files, for example families.h, range_reclaim.h and error_watch.h. Member functions of DatabaseImpl are also
// in estimate.cc, verify_files.cc, counters.cc, clone_family.cc and past_database.cc.
#pragma once

#include <rocksdb/env.h>

#include <atomic>
#include <memory>

#include "base/mutex.h"
#include "cloudfs/cloud_file_system.h"
#include "lsm/upkeep/companion_flush.h"
#include "lsm/upkeep/compaction_log.h"
#include "lsm/database.h"
#include "lsm/upkeep/error_watch.h"
#include "lsm/families.h"
#include "lsm/upkeep/group_sync.h"
#include "lsm/upkeep/idle_flush.h"
#include "lsm/upkeep/manual_compaction.h"
#include "lsm/options.h"
#include "lsm/upkeep/range_reclaim.h"

namespace atoll::lsm {

class DatabaseImpl final : public Database {
 public:
  explicit DatabaseImpl(const DatabaseOptions &options);
  ~DatabaseImpl() override;
  Status open();

  rocksdb::TransactionDB *db(Side side) override { return side == Side::kMain ? main_.get() : temp_.get(); }
  Family *catalog_family() override { return catalog_; }
  Family *shared_family() override { return shared_; }
  Family *temp_family() override { return temp_family_.get(); }

  Status create_family(const Compression &compression, Family **out) override;
  Status clone_family(Family *source, PastDatabase *past, const Compression &compression,
                      Family **out) override;
  Status copy_entries(Family *from, std::string_view begin, std::string_view end, Family *to,
                      std::string_view start, const std::function<bool()> &is_cancelled) override;
  bool has_room_for_family() override;
  Family *find_family(uint32_t id) override;
  void drop_family(uint32_t id) override;
  void reconcile_families(const std::function<bool(uint32_t id)> &is_known) override;

  uint64_t oldest_snapshot() override;
  Status delete_range(Family *family, std::string_view begin, std::string_view end) override;
  using Database::bulk_load;
  std::unique_ptr<BulkLoad> bulk_load(Family *family, const Compression &compression,
                                      std::shared_ptr<SortBudget> budget) override;
  std::shared_ptr<SortBudget> sort_budget(uint64_t bytes_max) override;

  rocksdb::Options run_file_options() override;
  std::string spill_directory() override;
  Status commit_ingestion(Ingestion *ingestion) override;
  SharedMutex *commit_gate() override { return &commit_gate_; }

  RangeEstimate estimate(Family *family, std::string_view begin, std::string_view end) override;
  RangeEstimate sizes(Family *family, std::string_view begin, std::string_view end) override;
  uint64_t total_bytes(Family *family) override;
  bool takes_more_than(Family *family, std::string_view begin, std::string_view end,
                       uint64_t bytes_max) override;
  std::vector<std::string> split(Family *family, std::string_view begin, std::string_view end,
                                 size_t pieces) override;

  Status sync_wal() override { return wal_sync_.wait(); }
  Status flush(Family *family) override;
  Status compact(Family *family, std::string_view begin, std::string_view end) override;
  Status rewrite(uint64_t *last_former) override;
  Status verify_files(Family *family, std::string_view begin, std::string_view end,
                      const std::function<bool()> &is_cancelled) override;
  Status background_error() override;
  bool holds_writers_back() override;
  void set_block_cache_bytes(uint64_t bytes) override;
  uint64_t block_cache_bytes() const override;
  uint64_t block_cache_bytes_used() const override;
  std::vector<std::pair<std::string, uint64_t>> counters() override;
  std::vector<TableFile> table_files() override;
  std::vector<Compaction> compactions() override { return compactions_->list(); }
  Status open_past(const MountState &mount, const std::string &directory,
                   std::unique_ptr<PastDatabase> *out) override;
  Status shut_down() override;

 private:
  Status open_main();
  Status open_temp();
  Status prepare_directories();
  Status open_fixed_families();
  Status flush_all();
  Status renew_manifest();
  std::vector<rocksdb::ColumnFamilyHandle *> families_with_memtables();
  Status list_families(const rocksdb::DBOptions &options, std::vector<std::string> *names);
  void raise_open_files_limit();
  void release_replayed_wals();
  void stop_threads();
  void close();

  rocksdb::DB *base(Side side) { return db(side)->GetBaseDB(); }
  // About how many bytes the files of `family` have in `range`; 0 after an error.
  uint64_t file_bytes(Family *family, const rocksdb::Range &range);
  double entry_bytes(FamilyImpl *family, const rocksdb::Range &range);
  bool count_cached(Family *family, const rocksdb::Range &range, RangeEstimate *counted);

  DatabaseOptions options_;
  SharedParts parts_;
  std::shared_ptr<ErrorWatch> errors_;
  std::shared_ptr<CompactionLog> compactions_;
  std::shared_ptr<CompanionFlush> companion_flush_;
  std::shared_ptr<cloudfs::CloudFileSystem> files_;
  std::unique_ptr<rocksdb::Env> env_;  // over files_
  std::unique_ptr<rocksdb::TransactionDB> main_;
  std::unique_ptr<rocksdb::TransactionDB> temp_;
  std::unique_ptr<FamilyImpl> temp_family_;
  std::unique_ptr<FamilyRegistry> families_;
  std::unique_ptr<RangeReclaim> reclaim_, temp_reclaim_;
  std::unique_ptr<IdleFlush> idle_flush_;
  ManualCompactions manual_compactions_;
  Family *catalog_ = nullptr;
  Family *shared_ = nullptr;
  SharedMutex commit_gate_;
  std::atomic<uint64_t> next_bulk_id_{1};
  GroupSync wal_sync_;
};

}  // namespace atoll::lsm
