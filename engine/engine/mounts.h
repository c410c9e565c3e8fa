// Schemas that show a state of the past, joinable with the tables of the present.
//
//     SELECT ATOLL_MOUNT('shop', 'monday', '2026-11-23 10:00:00')       monday.orders is shop.orders of then
//
// A mount lives in one process. Each has a directory of its name below <base>/past, so that the next start
// knows what the one before had mounted.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "catalog/catalog.h"
#include "lsm/past/past_database.h"

namespace atoll::engine {

// A file in the directory of a mounted schema, beside the databases: only a directory that has this file is
// removed.
constexpr char kMountMarker[] = "atoll.mount";

// A mounted schema, which does not change. Names are file names, as in the catalog. Threads: any.
class Mount {
 public:
  Mount(std::unique_ptr<lsm::PastDatabase> past, std::vector<catalog::TablePtr> tables, std::string options);

  // Entries like those of Catalog::find() and list(); each keeps the mount open as long as it is held.
  static catalog::TablePtr find(const std::shared_ptr<const Mount> &mount, std::string_view name);
  static std::vector<catalog::TablePtr> list(const std::shared_ptr<const Mount> &mount);
  // nullptr: no such family.
  lsm::Family *find_family(uint32_t id) const { return past_->find_family(id); }
  // The schema's db.opt at the moment that is shown.
  const std::string &options() const { return options_; }
  // When the newest commit in it was made, in microseconds since 1970; 0: it has no commit.
  uint64_t commit_us() const { return past_->commit_us(); }

 private:
  const std::unique_ptr<lsm::PastDatabase> past_;
  std::map<std::string, catalog::TablePtr, std::less<>> tables_;
  const std::string options_;
};

// Threads: any.
class Mounts {
 public:
  // `database` must live longer.
  Mounts(lsm::Database *database, std::string directory);

  // Schemas that a former process had mounted, and whose directories may be left.
  std::vector<std::string> leftovers() const;
  void forget_leftovers();

  // Opens the schema `source` as it was at `when`; find() does not return it before add(). Errors: kNotFound
  // (it had no such schema, or no table in it), kDuplicate (there is a mount `schema`), and those of
  // lsm::Database::open_past().
  Status open(const std::string &source, const std::string &schema, const std::string &when,
              std::shared_ptr<const Mount> *out);
  void add(const std::string &schema, std::shared_ptr<const Mount> mount);
  // nullptr: none. Costs an atomic load while nothing is mounted.
  std::shared_ptr<const Mount> find(std::string_view schema) const;
  // Removes the mount `schema`. False: there was none. Tables that are open can still be read.
  bool remove(std::string_view schema);

 private:
  lsm::Database *const database_;
  const std::string directory_;
  std::atomic<size_t> count_{0};
  std::atomic<uint64_t> opened_{0};
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<const Mount>, std::less<>> mounts_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atoll::engine
