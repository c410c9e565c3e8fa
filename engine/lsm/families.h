// The column families of the main database: handing out, dropping, and the pool of ready ones.
//
// Creating one family costs a MANIFEST sync; a batch of 16 costs little more. So families with the default
// compression are created in batches in the background and handed out from a pool.
//
// Invariants
//   FAMILY-1  A family is in exactly one state: unclassified (found at open, the catalog has not been asked),
//             pooled (empty, nobody knows it), used, dropped.
//   FAMILY-2  atoll_store_note_ddl() is called after each creation and drop and before the family is handed
//             out, so that no WAL that mentions a family is replayable over a root without it (gate PUB-G8);
//             atoll_store_note_drop() before each drop, so that no root lacks a family that the WAL still
//             names (PUB-G2).
//   FAMILY-3  Families are created and dropped in the base database, not in the TransactionDB: the lock
//             manager of the latter, which Atoll does not use, would keep tables per family. As cloudfs
//             refuses OPTIONS files, RocksDB returns an error for a DDL that succeeded. So a creation has
//             succeeded if RocksDB returned a handle, and a drop if the family is gone.
//   FAMILY-4  A FamilyImpl lives until the registry is destroyed. The RocksDB handle of a dropped family,
//             which pins its files, is released after a grace period, and not while a compaction uses it;
//             iterators hold their own reference.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/threads/repeated_task.h"
#include "lsm/database.h"
#include "lsm/options.h"

namespace atoll::lsm {

// Returns one of RocksDB's figures of a family; 0 when RocksDB does not have it.
uint64_t int_property(rocksdb::DB *db, rocksdb::ColumnFamilyHandle *handle, const std::string &name);

// Returns the table files of a family that may have keys from `begin` to `end`, which is not one of them.
std::vector<rocksdb::SstFileMetaData> files_in(rocksdb::DB *db, rocksdb::ColumnFamilyHandle *handle,
                                               std::string_view begin, std::string_view end);

// The size of an entry of one index on disk, by which the bytes of a range become an estimate of its entries.
struct EntrySize {
  double bytes = 0;
  std::chrono::steady_clock::time_point measured_at;
};

class FamilyImpl final : public Family {
 public:
  FamilyImpl(rocksdb::ColumnFamilyHandle *handle, Side side, rocksdb::DB *base)
      : id_(handle->GetID()), side_(side), base_(base), name_(handle->GetName()), handle_(handle) {}

  uint32_t id() const override { return id_; }
  Side side() const override { return side_; }
  rocksdb::DB *base() const override { return base_; }
  rocksdb::ColumnFamilyHandle *handle() const override { return handle_.load(std::memory_order_acquire); }
  const std::string &name() const { return name_; }

  Mutex entry_sizes_mutex;
  std::unordered_map<std::string, EntrySize> entry_sizes
      ATOLL_GUARDED_BY(entry_sizes_mutex);  // key: index prefix
  std::atomic<int> compactions{0};          // that statements have asked for and that still run

 private:
  friend class FamilyRegistry;
  enum class State : uint8_t { kUnclassified, kPooled, kUsed, kDropped };

  const uint32_t id_;
  const Side side_;
  rocksdb::DB *const base_;
  const std::string name_;
  std::atomic<rocksdb::ColumnFamilyHandle *> handle_;
  State state_ = State::kUnclassified;  // guarded by the registry's mutex
};

// Threads: any.
class FamilyRegistry {
 public:
  struct Settings {
    atoll_store *store = nullptr;
    Compression default_compression;
    std::function<void(int level, const std::string &)> log;
    std::chrono::milliseconds release_delay{30000};
  };

  FamilyRegistry(rocksdb::DB *db, const SharedParts *parts, Settings settings);
  ~FamilyRegistry();  // releases all handles

  // Takes over all handles, at open. Those of the fixed families (catalog, shared) count as used.
  void adopt(const std::vector<rocksdb::ColumnFamilyHandle *> &handles);
  // Finds or creates the family of that name, at open.
  Status fixed(std::string_view name, Family **out);

  // Makes a used family with these files, whose objects it shares. Errors: kUnavailable, kFenced, kNoSpace,
  // kInterrupted.
  Status import(const Compression &compression, const rocksdb::ExportImportFilesMetaData &files,
                Family **out);
  // Errors: kUnavailable, kFenced, kNoSpace.
  Status create(const Compression &compression, Family **out);
  Family *find(uint32_t id);
  void drop(uint32_t id);
  void reconcile(const std::function<bool(uint32_t id)> &is_known);

  std::vector<FamilyImpl *> live();
  size_t pooled();
  void stop() { task_.stop(); }  // pending drops are left to the next reconcile()

 private:
  Status create_batch(const Compression &compression, size_t count, std::vector<FamilyImpl *> *created)
      ATOLL_REQUIRES(create_mutex_);
  FamilyImpl *take_pooled(const Compression &compression);
  FamilyImpl *insert(rocksdb::ColumnFamilyHandle *handle, FamilyImpl::State state) ATOLL_REQUIRES(mutex_);
  bool is_empty(FamilyImpl *family);
  bool drop_now(FamilyImpl *family);
  // The work of the background task, which alone takes from to_drop_ and to_release_.
  void work();
  void drop_queued();
  void refill();
  void release_handles();
  void note_ddl();

  rocksdb::DB *const db_;
  const SharedParts *const parts_;
  const Settings settings_;

  Mutex create_mutex_;  // one batch at a time; taken before mutex_
  Mutex mutex_;
  std::unordered_map<uint32_t, std::unique_ptr<FamilyImpl>> families_ ATOLL_GUARDED_BY(mutex_);
  std::deque<FamilyImpl *> pool_ ATOLL_GUARDED_BY(mutex_);
  std::deque<FamilyImpl *> to_drop_ ATOLL_GUARDED_BY(mutex_);
  std::deque<std::pair<std::chrono::steady_clock::time_point, FamilyImpl *>> to_release_
      ATOLL_GUARDED_BY(mutex_);
  uint64_t next_sequence_ ATOLL_GUARDED_BY(mutex_) = 1;
  bool reconciled_ ATOLL_GUARDED_BY(mutex_) = false;
  RepeatedTask task_;  // last: uses all of the above
};

}  // namespace atoll::lsm
