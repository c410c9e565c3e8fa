// Tests only: an lsm::Database over two plain RocksDB databases in a directory, without bucket, pools or
// tuning. What the transaction layer does not use answers kBug.
#pragma once

#include <rocksdb/utilities/transaction_db.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "lsm/database.h"
#include "lsm/past/past_database.h"
#include "lsm/load/run_file.h"
#include "lsm/raw.h"

namespace atoll::txn {

class TestDirectory {
 public:
  TestDirectory() {
    char name[] = "/tmp/atoll_txn_XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TestDirectory() { std::filesystem::remove_all(path_); }
  const std::string &path() const { return path_; }

 private:
  std::string path_;
};

class TestFamily final : public lsm::Family {
 public:
  TestFamily(rocksdb::ColumnFamilyHandle *handle, lsm::Side side, rocksdb::DB *base)
      : handle_(handle), side_(side), base_(base) {}
  uint32_t id() const override { return handle_->GetID(); }
  lsm::Side side() const override { return side_; }
  rocksdb::DB *base() const override { return base_; }
  rocksdb::ColumnFamilyHandle *handle() const override { return handle_; }

 private:
  rocksdb::ColumnFamilyHandle *handle_;
  lsm::Side side_;
  rocksdb::DB *base_;
};

class TestDatabase final : public lsm::Database {
 public:
  explicit TestDatabase(const std::string &directory, rocksdb::Env *env = nullptr)
      : directory_(directory), env_(env) {
    open_side(directory + "/main", env, &main_, &main_families_, lsm::Side::kMain);
    open_side(directory + "/temp", env, &temp_, &temp_families_, lsm::Side::kTemp);
  }
  ~TestDatabase() override {
    close(main_, &main_families_);
    close(temp_, &temp_families_);
  }

  std::function<void()> on_sync;  // called before each sync of the WAL
  rocksdb::TransactionDB *db(lsm::Side side) override { return side == lsm::Side::kMain ? main_ : temp_; }
  lsm::Family *catalog_family() override { return main_families_[0].get(); }
  lsm::Family *shared_family() override { return main_families_[1].get(); }
  lsm::Family *temp_family() override { return temp_families_[1].get(); }

  Status clone_family(lsm::Family *, const lsm::Compression &, lsm::Family **) override { return unused(); }
  Status copy_entries(lsm::Family *, std::string_view, std::string_view, std::string_view,
                      const std::function<bool()> &) override {
    return unused();
  }
  Status create_family(const lsm::Compression &, lsm::Family **) override { return unused(); }
  bool has_room_for_family() override { return true; }
  lsm::Family *find_family(uint32_t id) override {
    return id < main_families_.size() ? main_families_[id].get() : nullptr;
  }
  void drop_family(uint32_t) override {}
  void reconcile_families(const std::function<bool(uint32_t)> &) override {}
  Status delete_range(lsm::Family *, std::string_view, std::string_view) override { return unused(); }
  std::shared_ptr<lsm::SortBudget> sort_budget(uint64_t) override { return nullptr; }
  std::unique_ptr<lsm::BulkLoad> bulk_load(lsm::Family *, const lsm::Compression &,
                                           std::shared_ptr<lsm::SortBudget>) override {
    return nullptr;
  }
  rocksdb::Options run_file_options() override {
    rocksdb::Options options;
    if (env_ != nullptr) options.env = env_;
    return options;
  }
  std::string spill_directory() override { return directory_ + "/main/spill"; }
  Status commit_ingestion(lsm::Ingestion *ingestion) override { return ingestion->commit(); }
  SharedMutex *commit_gate() override { return &commit_gate_; }
  lsm::RangeEstimate estimate(lsm::Family *, std::string_view, std::string_view) override { return {}; }
  lsm::RangeEstimate sizes(lsm::Family *, std::string_view, std::string_view) override { return {}; }
  uint64_t total_bytes(lsm::Family *) override { return 0; }
  bool takes_more_than(lsm::Family *, std::string_view, std::string_view, uint64_t) override { return false; }
  uint64_t oldest_snapshot() override { return UINT64_MAX; }
  std::vector<std::string> split(lsm::Family *, std::string_view, std::string_view, size_t) override {
    return {};
  }
  Status sync_wal() override {
    if (on_sync) on_sync();
    return lsm::from_rocksdb(db(lsm::Side::kMain)->SyncWAL());
  }
  Status flush(lsm::Family *family) override {
    const auto status = lsm::Raw::of(family)->Flush(rocksdb::FlushOptions(), family->handle());
    return status.ok() ? Status::Ok() : lsm::from_rocksdb(status);
  }
  Status compact(lsm::Family *, std::string_view, std::string_view) override { return unused(); }
  Status verify_files(lsm::Family *, std::string_view, std::string_view,
                      const std::function<bool()> &) override {
    return unused();
  }
  Status background_error() override { return Status::Ok(); }
  bool holds_writers_back() override { return false; }
  void set_block_cache_bytes(uint64_t) override {}
  uint64_t block_cache_bytes() const override { return 0; }
  uint64_t block_cache_bytes_used() const override { return 0; }
  std::vector<std::pair<std::string, uint64_t>> counters() override { return {}; }
  std::vector<lsm::TableFile> table_files() override { return {}; }
  std::vector<lsm::Compaction> compactions() override { return {}; }
  Status open_past(const std::string &, const std::string &, const std::string &,
                   std::unique_ptr<lsm::PastDatabase> *) override {
    return unused();
  }
  Status shut_down() override { return Status::Ok(); }

 private:
  using Families = std::vector<std::unique_ptr<TestFamily>>;

  static Status unused() { return Status(Code::kBug, "not in the test database"); }

  static void open_side(const std::string &path, rocksdb::Env *env, rocksdb::TransactionDB **db,
                        Families *families, lsm::Side side) {
    std::filesystem::create_directories(path);
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    if (env != nullptr) options.env = env;
    rocksdb::TransactionDBOptions transaction_options;
    transaction_options.skip_concurrency_control = true;
    std::vector<rocksdb::ColumnFamilyHandle *> handles;
    const std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = {{rocksdb::kDefaultColumnFamilyName, {}},
                                                                      {"shared", {}}};
    const auto status =
        rocksdb::TransactionDB::Open(options, transaction_options, path, descriptors, &handles, db);
    if (!status.ok()) {
      std::fprintf(stderr, "cannot open %s: %s\n", path.c_str(), status.ToString().c_str());
      std::abort();
    }
    for (auto *handle : handles)
      families->push_back(std::make_unique<TestFamily>(handle, side, (*db)->GetBaseDB()));
  }

  static void close(rocksdb::TransactionDB *db, Families *families) {
    for (auto &family : *families) (void)db->DestroyColumnFamilyHandle(family->handle());
    delete db;
  }

  const std::string directory_;
  SharedMutex commit_gate_;
  rocksdb::Env *const env_;
  rocksdb::TransactionDB *main_ = nullptr;
  rocksdb::TransactionDB *temp_ = nullptr;
  Families main_families_, temp_families_;
};

}  // namespace atoll::txn
