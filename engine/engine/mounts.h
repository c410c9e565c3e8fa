// Mounted schemas: each shows a schema as it was at a moment of the past. Statements can join its tables with
// tables of the present.
//
//     SELECT ATOLL_MOUNT('shop', 'monday', '2026-11-23 10:00:00')
//     SELECT * FROM monday.orders                    the rows that shop.orders had at that time
//
// A mount ends with the server process. Each has a directory of its name below <base>/past, by which the next
// start of the server knows which schemas were mounted.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "catalog/catalog.h"
#include "lsm/past/past_database.h"

namespace atoll::engine {

// The name of a file that marks the directory of a mounted schema in the data directory. Only a directory
// with this file is removed when the mount ends, so that the directory of another schema is never removed.
constexpr char kMountMarker[] = "atoll.mount";

// A mounted schema. It never changes. Names are file names, as in the catalog. Threads: any.
class Mount {
 public:
  Mount(std::unique_ptr<lsm::PastDatabase> past, catalog::PastSchema schema);

  // As Catalog::find() and Catalog::list(), for the mounted tables. Each returned pointer keeps the mount
  // open for as long as the caller holds it.
  static catalog::TablePtr find(const std::shared_ptr<const Mount> &mount, std::string_view name);
  static std::vector<catalog::TablePtr> list(const std::shared_ptr<const Mount> &mount);
  // As Catalog::with_partitions(): the table of that name, if there is one, and after it its partitions.
  static std::vector<catalog::TablePtr> with_partitions(const std::shared_ptr<const Mount> &mount,
                                                        std::string_view whole);
  // What a clone of a mounted table gets.
  const catalog::Belongings &belongings(const catalog::TableDef &table) const {
    return schema_.belongings.at(table.id);
  }
  // As lsm::PastDatabase::open_with_tables(): the state whose table files clones can share.
  Status open_with_tables(std::unique_ptr<lsm::PastDatabase> *out) const {
    return past_->open_with_tables(out);
  }
  // nullptr: there is no such family.
  lsm::Family *find_family(uint32_t id) const { return past_->find_family(id); }
  // The content of the schema's db.opt at the moment that the mount shows.
  const std::string &options() const { return schema_.options; }
  // When the newest commit that the mount shows was made, in microseconds since 1970; 0: it shows no commit.
  uint64_t commit_us() const { return past_->commit_us(); }

 private:
  const std::unique_ptr<lsm::PastDatabase> past_;
  const catalog::PastSchema schema_;
  std::map<std::string, catalog::TablePtr, std::less<>> tables_;  // those of schema_, by name
};

// Threads: any.
class Mounts {
 public:
  // Says whether a state of the past may be shown. Its catalog has this record.
  using Check = std::function<Status(const catalog::MaskingRecord &masking)>;

  // `store` and `database` must live longer than this object. `directory`: the local directory that gets the
  // files of all mounts (<base>/past).
  Mounts(atoll_store *store, lsm::Database *database, std::string directory);

  // Returns the names of schemas that an earlier process had mounted. Their directories in the data directory
  // may still exist.
  std::vector<std::string> leftovers() const;
  void forget_leftovers();

  // Opens the schema `source` as it was at `when`, to be mounted as `schema`. find() returns the mount only
  // after add(). Errors: kNotFound (there was no such schema at that moment, or it had no table), kDuplicate
  // (a mount `schema` exists), kNoSpace (its directory cannot be made), and as `check` and of
  // lsm::Database::open_past().
  Status open(const std::string &source, const std::string &schema, const std::string &when,
              const Check &check, std::shared_ptr<const Mount> *out);
  void add(const std::string &schema, std::shared_ptr<const Mount> mount);
  // Opens the state that another database has pinned for the hand-over `id`. Table files of it can be shared
  // (lsm::PastDatabase::open_with_tables()). It does not become a mount that find() returns. Errors: as
  // atoll_store_mount_offer() and lsm::Database::open_past().
  Status open_offer(const std::string &id, std::unique_ptr<lsm::PastDatabase> *out);
  // nullptr: there is no such mount. Costs an atomic load while nothing is mounted.
  std::shared_ptr<const Mount> find(std::string_view schema) const;
  // Removes the mount `schema`. Returns false when there was no such mount. Statements that have its tables
  // open can still read them.
  bool remove(std::string_view schema);

 private:
  atoll_store *const store_;
  lsm::Database *const database_;
  const std::string directory_;
  std::atomic<size_t> count_{0};
  std::atomic<uint64_t> opened_{0};
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const Mount>, std::less<>> mounts_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atoll::engine
