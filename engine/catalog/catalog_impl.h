// The private part of Catalog: its members, and the functions that its public functions call to make changes.
//
// Locks: change_mutex puts changes in order and is held while they are written to disk. mutex guards the maps
// and is never held during I/O. A thread that needs both takes change_mutex first.
#pragma once

#include <rocksdb/write_batch.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "catalog/catalog.h"
#include "catalog/record.h"

namespace atoll::catalog {

// Returns `database`.`name`, for messages.
std::string qualified_name(std::string_view database, std::string_view name);

// Returns the error kNotFound for a table that the catalog lacks.
Status no_such_table(std::string_view database, std::string_view name);

// Returns the error kDuplicate for a new table whose name another table has.
Status exists_already(std::string_view database, std::string_view name);

// The key of a table in the maps. Names are file names and contain no '/', so it separates the two parts.
inline std::string name_key(std::string_view database, std::string_view name) {
  std::string key(database);
  return key.append(1, '/').append(name);
}

// The internal name of a dropped table (Catalog::holds_drops): this, and then its name.
inline constexpr std::string_view kHeldDropPrefix = "#sql-drop-";

// The maps of a Catalog, and the functions that several of its files use.
struct Catalog::Impl {
  // A table and its new name.
  struct Renaming {
    TablePtr table;
    std::string database, name;
    RenamedReferences references = {};
  };

  // Who refers to whom by FOREIGN KEY: the name_key() of a parent, and the id of a child.
  using References = std::set<std::pair<std::string, uint32_t>>;

  // A definition that will replace an older one in the maps. All memory for that is allocated before the
  // change is written to disk. If memory ran out after the write, the maps would contradict the disk.
  struct Arrival {
    std::shared_ptr<TableDef> table;
    std::map<std::string, TablePtr> by_name;  // has one entry, which moves into Impl::by_name; by_id likewise
    std::map<uint32_t, TablePtr> by_id;
    References references;         // of the new definition; they move into Impl::references
    References former_references;  // of the older definition
    std::string former_name;       // the name_key() of the older definition; empty: there is no older one
  };

  lsm::Rows *rows = nullptr;
  lsm::Families *families = nullptr;

  Mutex change_mutex;
  Meta meta ATOLL_GUARDED_BY(change_mutex);
  std::vector<Doomed> pending ATOLL_GUARDED_BY(change_mutex);  // ranges that are not deleted yet

  mutable SharedMutex mutex;
  std::map<std::string, TablePtr> by_name ATOLL_GUARDED_BY(mutex);
  std::map<uint32_t, TablePtr> by_id ATOLL_GUARDED_BY(mutex);
  References references ATOLL_GUARDED_BY(mutex);  // of all tables but new ones under internal names
  Counters auto_increments ATOLL_GUARDED_BY(mutex);
  std::map<uint32_t, std::string> statistics ATOLL_GUARDED_BY(mutex);
  std::set<uint32_t> dirty_statistics ATOLL_GUARDED_BY(mutex);
  std::map<std::string, std::string> databases ATOLL_GUARDED_BY(mutex);  // name -> content of db.opt
  std::map<std::string, SideFile> side_files ATOLL_GUARDED_BY(mutex);    // by name_key()
  MaskingRecord masking ATOLL_GUARDED_BY(mutex);
  uint64_t generation ATOLL_GUARDED_BY(mutex) = 1;

  // *visible_from (may be nullptr): snapshots with this sequence number or a larger one see what was written.
  Status write(rocksdb::WriteBatch *batch, bool sync, uint64_t *visible_from = nullptr);
  void put(rocksdb::WriteBatch *batch, const std::string &key, const std::string &value);
  void remove(rocksdb::WriteBatch *batch, const std::string &key);
  void put_table(rocksdb::WriteBatch *batch, const TableDef &table);
  void put_counters(rocksdb::WriteBatch *batch, const Counters &counters);
  void put_doomed(rocksdb::WriteBatch *batch, Doomed *doomed) ATOLL_REQUIRES(change_mutex);
  Status reclaim(const std::vector<Doomed> &all);
  Status put_database(const DatabaseDef &def) ATOLL_REQUIRES(change_mutex);

  TablePtr find(std::string_view database_name, std::string_view name) const;
  TablePtr find(uint32_t table_id) const;
  static Arrival arrival(const TableDef &table, const TablePtr &former);
  TablePtr install(Arrival arrival) noexcept;
  void install(Counters counters) noexcept;
  static References references_of(const TableDef &table);
  void forget(uint32_t table_id, const std::string &name, const References &former) noexcept;
  void drop_family(uint32_t family_id) noexcept;
  Status store_new(TableDef *def, lsm::Family *family, bool own) ATOLL_REQUIRES(change_mutex);
  Status update(const std::vector<TableDef> &defs, const Counters &counters, bool sync)
      ATOLL_REQUIRES(change_mutex);
  // `defs` with the stored constraints, as `changes` change them, and then the changed children.
  Status with_changes(const std::vector<TableDef> &defs, const ForeignKeyChanges &changes,
                      std::vector<TableDef> *out) const;
  // Gives the constraints of a renamed table their new names, and adds its changed children to `children`.
  Status rename_references(const Renaming &renaming, TableDef *table, std::vector<TableDef> *children) const;
  Status check_names(const TableDef &table, uint32_t except_table_id) const;
  TablePtr with_foreign_key(std::string_view database, std::string_view constraint,
                            uint32_t except_table_id) const;
  std::vector<TablePtr> children_of(std::string_view database, std::string_view table,
                                    bool set_aside = false) const;
  Status rename(const std::vector<Renaming> &renamings) ATOLL_REQUIRES(change_mutex);
  Status drop(const std::vector<TablePtr> &tables) ATOLL_REQUIRES(change_mutex);
  Status hold(const std::vector<TablePtr> &tables) ATOLL_REQUIRES(change_mutex);
  Status replace_data(const TablePtr &former, TableDef table, lsm::Family *family, TablePtr *out)
      ATOLL_REQUIRES(change_mutex);

  // Defined in catalog_open.cc. They lock no mutex, because no other thread knows the catalog yet.
  Status load(lsm::Family *catalog) ATOLL_UNCHECKED_THREADS;
  Status load_record(std::string_view key, std::string_view value) ATOLL_UNCHECKED_THREADS;
  Status load_table(std::string_view key, std::string_view value) ATOLL_UNCHECKED_THREADS;
  Status load_table_value(RecordKind kind, std::string_view key,
                          std::string_view value) ATOLL_UNCHECKED_THREADS;
  Status check() ATOLL_UNCHECKED_THREADS;
  void remove_orphans(rocksdb::WriteBatch *batch) ATOLL_UNCHECKED_THREADS;
  Status drop_half_built(rocksdb::WriteBatch *batch) ATOLL_UNCHECKED_THREADS;
  void put_back_partitions(rocksdb::WriteBatch *batch) ATOLL_UNCHECKED_THREADS;
  void index_references() ATOLL_UNCHECKED_THREADS;
  Status repair() ATOLL_UNCHECKED_THREADS;
};

}  // namespace atoll::catalog
