// Creates and drops the column families of the main database, and keeps a pool of empty ones for new tables.
//
// The creation of each family costs a MANIFEST sync, for which a CREATE TABLE would have to wait. So families
// with the default compression are created in batches of 16 in the background and handed out from a pool.
//
// Invariants
//   FAMILY-1  A family is in exactly one state: unclassified (found at open; whether the catalog has a table
//             in it is not known yet), pooled (empty, no table uses it), used, or dropped.
//   FAMILY-2  atoll_store_note_ddl() is called after each creation or drop, and before a family is handed
//             out. So no WAL that names a family is replayed over a root without the family (gate PUB-G8).
//             atoll_store_note_drop() is called before each drop. So no root without the family is published
//             while the bucket lacks WAL from before the drop: this WAL may name the family (PUB-G7).
//   FAMILY-3  Families are created and dropped in the base database, not in the TransactionDB, whose lock
//             manager would keep lock tables for each family; Atoll does not use them. cloudfs refuses
//             OPTIONS files, so RocksDB returns an error for a DDL that has succeeded. So a creation has
//             succeeded if RocksDB returned a handle, and a drop has succeeded if the family is gone.
//   FAMILY-4  A FamilyImpl lives until the registry is destroyed. The RocksDB handle of a dropped family
//             keeps the family's files. It is released after a grace period, and not while a compaction uses
//             it. Iterators hold a reference of their own.
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

// Returns the table files of a family whose key ranges overlap [begin, end).
std::vector<rocksdb::SstFileMetaData> files_in(rocksdb::DB *db, rocksdb::ColumnFamilyHandle *handle,
                                               std::string_view begin, std::string_view end);

// The average size of an entry of one index on disk. The bytes of a range, divided by it, give the estimated
// number of entries.
struct EntrySize {
  double bytes = 0;
  std::chrono::steady_clock::time_point measured_at;  // after a minute, entry_bytes() measures again
};

// One column family. The FamilyRegistry makes it and owns it (FAMILY-4). Threads: any.
class FamilyImpl final : public Family {
 public:
  FamilyImpl(rocksdb::ColumnFamilyHandle *handle, Side side, rocksdb::DB *base)
      : id_(handle->GetID()), side_(side), base_(base), name_(handle->GetName()), handle_(handle) {}

  uint32_t id() const override { return id_; }
  Side side() const override { return side_; }
  rocksdb::DB *base() const override { return base_; }
  rocksdb::ColumnFamilyHandle *handle() const override { return handle_.load(std::memory_order_acquire); }
  const std::string &name() const { return name_; }

  // entry_sizes: what DatabaseImpl::entry_bytes() remembers, for each index of the tables in the family.
  Mutex entry_sizes_mutex;
  std::unordered_map<std::string, EntrySize> entry_sizes
      ATOLL_GUARDED_BY(entry_sizes_mutex);  // key: table prefix and index ordinal
  std::atomic<int> compactions{0};          // manual compactions of the family that have not ended

 private:
  friend class FamilyRegistry;
  enum class State : uint8_t { kUnclassified, kPooled, kUsed, kDropped };  // see FAMILY-1

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
    atoll_store *store = nullptr;                             // nullptr: there is no bucket
    Compression default_compression;                          // of the families in the pool
    std::function<void(int level, const std::string &)> log;  // for errors of the background task; or null
    // How long the handle of a dropped family is kept, for statements that still use it.
    std::chrono::milliseconds release_delay{30000};
  };

  FamilyRegistry(rocksdb::DB *db, const SharedParts *parts, Settings settings);
  ~FamilyRegistry();  // releases all handles

  // Called at open: takes over the handles of all families. The families default, catalog and shared count as
  // used. Families that were made for single tables, which parse_family_name() tells by their names, are
  // unclassified until reconcile() is called.
  void adopt(const std::vector<rocksdb::ColumnFamilyHandle *> &handles);
  // Called at open: finds the family of that name, or creates it.
  Status fixed(std::string_view name, Family **out);

  // Makes a family with table files of another family and hands it out. Both families share the objects of
  // the files in the bucket. Errors: kUnavailable, kFenced, kNoSpace, kInterrupted.
  Status import(const Compression &compression, const rocksdb::ExportImportFilesMetaData &files,
                Family **out);
  // As Families::create_family(), find_family(), drop_family() and reconcile_families().
  Status create(const Compression &compression, Family **out);
  Family *find(uint32_t id);
  void drop(uint32_t id);
  void reconcile(const std::function<bool(uint32_t id)> &is_known);

  std::vector<FamilyImpl *> live();  // all families that are not dropped
  size_t pooled();                   // number of families in the pool
  void stop() { task_.stop(); }      // reconcile() after the next start repeats pending drops

 private:
  Status create_batch(const Compression &compression, size_t count, std::vector<FamilyImpl *> *created)
      ATOLL_REQUIRES(create_mutex_);
  // Returns nullptr if the pool is empty or its families have another compression.
  FamilyImpl *take_pooled(const Compression &compression);
  FamilyImpl *insert(rocksdb::ColumnFamilyHandle *handle, FamilyImpl::State state) ATOLL_REQUIRES(mutex_);
  bool is_empty(FamilyImpl *family);
  bool drop_now(FamilyImpl *family);  // false: the drop failed and must be repeated
  // The background task calls the next four functions. Only they remove elements of to_drop_ and to_release_.
  void work();
  void drop_queued();
  void refill();
  void release_handles();
  void note_ddl();

  rocksdb::DB *const db_;
  const SharedParts *const parts_;
  const Settings settings_;

  Mutex create_mutex_;  // held while RocksDB creates families; locked before mutex_
  Mutex mutex_;
  std::unordered_map<uint32_t, std::unique_ptr<FamilyImpl>> families_ ATOLL_GUARDED_BY(mutex_);
  std::deque<FamilyImpl *> pool_ ATOLL_GUARDED_BY(mutex_);     // the families in state kPooled
  std::deque<FamilyImpl *> to_drop_ ATOLL_GUARDED_BY(mutex_);  // in state kDropped; RocksDB still has them
  // Families that RocksDB has dropped, and when their handles can be released.
  std::deque<std::pair<std::chrono::steady_clock::time_point, FamilyImpl *>> to_release_
      ATOLL_GUARDED_BY(mutex_);
  uint64_t next_sequence_ ATOLL_GUARDED_BY(mutex_) = 1;  // the number in the name of the next family
  // False: reconcile() was not called yet. It can put families into the pool, so until then the background
  // task does not refill the pool.
  bool reconciled_ ATOLL_GUARDED_BY(mutex_) = false;
  RepeatedTask task_;  // declared last, because its thread uses the other members
};

}  // namespace atoll::lsm
