// Tests only: the database as the catalog uses it, over one plain RocksDB. It can "crash" before any step of
// a change of the catalog.
#pragma once

#include <rocksdb/utilities/transaction_db.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "lsm/rows.h"

namespace atoll::catalog {

struct Crash {};  // thrown through the catalog, so that it does not run the later steps of the change

class TestFamily final : public lsm::Family {
 public:
  TestFamily(rocksdb::ColumnFamilyHandle *handle, rocksdb::DB *base) : handle_(handle), base_(base) {}
  uint32_t id() const override { return handle_->GetID(); }
  lsm::Side side() const override { return lsm::Side::kMain; }
  rocksdb::DB *base() const override { return base_; }
  rocksdb::ColumnFamilyHandle *handle() const override { return handle_; }

 private:
  rocksdb::ColumnFamilyHandle *handle_;
  rocksdb::DB *base_;
};

class TestDatabase final : public lsm::Rows, public lsm::Families {
 public:
  // Opens or creates the database. Each family except "default" and "shared" is the own family of a table.
  explicit TestDatabase(const std::string &path) {
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    std::vector<std::string> names;
    if (!rocksdb::DB::ListColumnFamilies(options, path, &names).ok()) names = {"default", "shared"};
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const std::string &name : names) descriptors.emplace_back(name, rocksdb::ColumnFamilyOptions());
    rocksdb::TransactionDBOptions transaction_options;
    transaction_options.skip_concurrency_control = true;
    std::vector<rocksdb::ColumnFamilyHandle *> handles;
    const auto status =
        rocksdb::TransactionDB::Open(options, transaction_options, path, descriptors, &handles, &db_);
    if (!status.ok()) {
      std::fprintf(stderr, "cannot open %s: %s\n", path.c_str(), status.ToString().c_str());
      std::abort();
    }
    for (auto *handle : handles) adopt(handle);
    catalog_ = families_.at(0).get();
    for (auto &[id, family] : families_)
      if (family->handle()->GetName() == "shared") shared_ = family.get();
  }
  ~TestDatabase() override {
    for (auto &[id, family] : families_) (void)db_->DestroyColumnFamilyHandle(family->handle());
    for (auto &family : dropped_) (void)db_->DestroyColumnFamilyHandle(family->handle());
    delete db_;
  }

  // Makes the database throw Crash before the n-th step from now (0 = the next); negative: never.
  void crash_before_step(int n) { steps_left_ = n; }
  int deletes() const { return deletes_; }
  // The value that oldest_snapshot() returns.
  uint64_t oldest_snapshot_number = UINT64_MAX;
  // True: from now on delete_range() fails as if the disk were full. False: it no longer fails.
  void fail_deletes(bool fail) { fail_deletes_ = fail; }

  rocksdb::TransactionDB *db(lsm::Side) override {
    step();  // the catalog calls db() right before each write
    return db_;
  }
  rocksdb::TransactionDB *raw() { return db_; }
  lsm::Family *catalog_family() override { return catalog_; }
  lsm::Family *shared_family() override { return shared_; }
  lsm::Family *temp_family() override { return nullptr; }

  // Copies the rows. The real database shares the table files instead.
  Status clone_family(lsm::Family *source, lsm::PastDatabase *, const lsm::Compression &compression,
                      lsm::Family **out) override {
    ATOLL_RETURN_IF_ERROR(create_family(compression, out));
    const std::unique_ptr<rocksdb::Iterator> rows(db_->NewIterator(rocksdb::ReadOptions(), source->handle()));
    for (rows->SeekToFirst(); rows->Valid(); rows->Next())
      (void)db_->Put(rocksdb::WriteOptions(), (*out)->handle(), rows->key(), rows->value());
    return lsm::from_rocksdb(rows->status());
  }
  Status copy_entries(lsm::Family *, std::string_view, std::string_view, lsm::Family *, std::string_view,
                      const std::function<bool()> &) override {
    return Status(Code::kBug, "no test copies entries");
  }
  Status create_family(const lsm::Compression &, lsm::Family **out) override {
    step();
    rocksdb::ColumnFamilyHandle *handle = nullptr;
    const std::string name =
        "own" + std::to_string(db_->GetLatestSequenceNumber()) + "_" + std::to_string(++made_);
    const auto status = db_->CreateColumnFamily(rocksdb::ColumnFamilyOptions(), name, &handle);
    if (!status.ok()) return lsm::from_rocksdb(status);
    *out = adopt(handle);
    return Status::Ok();
  }
  bool has_room_for_family() override { return true; }
  lsm::Family *find_family(uint32_t id) override {
    const auto found = families_.find(id);
    return found == families_.end() ? nullptr : found->second.get();
  }
  void drop_family(uint32_t id) override {
    step();
    const auto found = families_.find(id);
    if (found == families_.end()) return;
    (void)db_->DropColumnFamily(found->second->handle());
    dropped_.push_back(std::move(found->second));
    families_.erase(found);
  }
  void reconcile_families(const std::function<bool(uint32_t)> &is_known) override {
    for (const uint32_t id : own_families())
      if (!is_known(id)) drop_family(id);
  }
  std::set<uint32_t> own_families() const {
    std::set<uint32_t> ids;
    for (const auto &[id, family] : families_)
      if (family.get() != catalog_ && family.get() != shared_) ids.insert(id);
    return ids;
  }

  Status delete_range(lsm::Family *family, std::string_view begin, std::string_view end) override {
    step();
    if (fail_deletes_) return Status(Code::kNoSpace, "no space for a tombstone");
    ++deletes_;
    rocksdb::WriteBatch batch;
    (void)batch.DeleteRange(family->handle(), rocksdb::Slice(begin.data(), begin.size()),
                            rocksdb::Slice(end.data(), end.size()));
    return lsm::from_rocksdb(db_->Write(rocksdb::WriteOptions(), {true, true}, &batch));
  }

  SharedMutex *commit_gate() override { return &commit_gate_; }
  uint64_t oldest_snapshot() override { return oldest_snapshot_number; }
  Status sync_wal() override { return Status::Ok(); }
  bool holds_writers_back() override { return false; }

 private:
  void step() {
    if (steps_left_ < 0) return;
    if (steps_left_-- == 0) throw Crash();
  }
  lsm::Family *adopt(rocksdb::ColumnFamilyHandle *handle) {
    auto &family = families_[handle->GetID()];
    family = std::make_unique<TestFamily>(handle, db_->GetBaseDB());
    return family.get();
  }

  rocksdb::TransactionDB *db_ = nullptr;
  SharedMutex commit_gate_;
  std::map<uint32_t, std::unique_ptr<TestFamily>> families_;
  std::vector<std::unique_ptr<TestFamily>> dropped_;
  lsm::Family *catalog_ = nullptr;
  lsm::Family *shared_ = nullptr;
  int steps_left_ = -1;
  int made_ = 0;
  int deletes_ = 0;
  bool fail_deletes_ = false;
};

}  // namespace atoll::catalog
