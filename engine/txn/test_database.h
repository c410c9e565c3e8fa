// For tests only: implements what transactions use of the database. It consists of two plain RocksDB
// databases in a directory, without bucket, pools or tuning.
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
#include "lsm/load/loads.h"
#include "lsm/load/run_file.h"
#include "lsm/raw.h"

namespace atoll::txn {

// A new directory, which the destructor removes.
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

class TestDatabase final : public lsm::Rows, public lsm::RunFiles {
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

  lsm::Family *find_family(uint32_t id) override {
    return id < main_families_.size() ? main_families_[id].get() : nullptr;
  }
  rocksdb::Options run_file_options() override {
    rocksdb::Options options;
    if (env_ != nullptr) options.env = env_;
    return options;
  }
  std::string spill_directory() override { return directory_ + "/main/spill"; }
  Status commit_ingestion(lsm::Ingestion *ingestion) override { return ingestion->commit(); }
  SharedMutex *commit_gate() override { return &commit_gate_; }
  uint64_t oldest_snapshot() override { return UINT64_MAX; }
  Status sync_wal() override {
    if (on_sync) on_sync();
    return lsm::from_rocksdb(db(lsm::Side::kMain)->SyncWAL());
  }
  Status flush(lsm::Family *family) {
    const auto status = lsm::Raw::of(family)->Flush(rocksdb::FlushOptions(), family->handle());
    return status.ok() ? Status::Ok() : lsm::from_rocksdb(status);
  }
  bool holds_writers_back() override { return false; }

 private:
  using Families = std::vector<std::unique_ptr<TestFamily>>;

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
