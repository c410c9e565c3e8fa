// Table definitions, ids and schema versions, stored in the database itself (the catalog family), so that
// a bucket alone is enough to serve every table. The whole catalog is cached in memory, so lookups make no
// I/O.
//
// Record formats: docs/internals/formats-catalog.md. Each row of the catalog family describes one object, for
// example one table or one database.
//
// Invariants
//   CAT-1  A catalog gives no table id out twice. A table uses no index ordinal or column id twice.
//   CAT-2  A family is created before the catalog row that names it is written, and dropped after that row is
//          deleted. The bucket gets no root without the family before it has the log with that deletion (gate
//          PUB-G7). Otherwise a restored catalog could name a family that does not exist.
//   CAT-3  Every change of a definition is one atomic, synced write.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/description/foreign_key.h"
#include "catalog/description/table_description.h"
#include "codec/row_codec.h"
#include "lsm/rows.h"

namespace atoll::catalog {

// An index as the catalog stores it. Every new index gets the next ordinal of its table, and so does the
// primary key, also a hidden one. Ordinals only grow and are never reused.
struct IndexDef {
  std::string name;  // "PRIMARY", the name that the user gave, or "" for the hidden primary key
  uint16_t ordinal = 0;
  bool unique = false;
  bool building = false;  // ADD INDEX has not finished: statements do not see the index, open() drops it
  // Not stored: the oldest snapshot (RocksDB's sequence number) at which the index has all its entries; 0: it
  // has them at every snapshot.
  uint64_t readable_from = 0;
  bool operator==(const IndexDef &) const = default;
};

// How rows of one schema version are laid out (codec::RowCodec).
struct SchemaVersion {
  uint32_t version = 1;
  std::vector<codec::PastColumn> columns;
  bool operator==(const SchemaVersion &other) const;
};

// A sequence number of RocksDB, valid only until the server stops. It is not stored, and the comparison of
// two definitions ignores it.
struct UnstoredSequence {
  uint64_t number = 0;
  bool operator==(const UnstoredSequence &) const { return true; }
};

// Where the rows were before the mover moved the table out of the shared family. The old rows stay there as
// long as a snapshot exists that is older than the move. It is not stored, and the comparison of two
// definitions ignores it.
struct FormerPlace {
  lsm::Family *family = nullptr;  // the family of the old rows; nullptr: there are no old rows
  uint32_t prefix = 0;
  uint64_t readable_from = 0;  // TableDef::readable_from before the move
  bool operator==(const FormerPlace &) const { return true; }
};

// Everything about one physical table: a table, or one partition ("t#P#p0").
struct TableDef {
  uint32_t id = 0;
  std::string database;  // the name of its directory (encoded, e.g. "db@002d1")
  // The name of the table's file without the ending. The name of a partition contains #P#, and the name of
  // the temporary table of an ALTER begins with #sql-.
  std::string name;
  uint32_t family_id = 0;
  uint32_t prefix = 0;  // the first 4 bytes of all keys of the table; 0 in a family of its own
  bool own_family = false;
  lsm::Compression compression;
  bool compression_explicit = false;
  bool hidden_primary_key = false;
  uint32_t next_column_id = 1;
  uint16_t next_ordinal = 1;
  std::vector<IndexDef> indexes;        // [0] is the primary key, or the hidden one
  std::vector<uint32_t> column_ids;     // of the stored columns, in the order of the server's fields
  std::vector<SchemaVersion> versions;  // ascending; rows are written in the last one
  // The defaults of columns that an instant ALTER added: older rows, which it did not rewrite, have these.
  std::vector<codec::ColumnDefault> defaults;
  // Columns and keys. Not known for the entry of a whole partitioned table, and for an entry of an earlier
  // version of Atoll until a server that may write opens the table.
  TableDescription description;
  std::vector<ForeignKeyDef> foreign_keys;  // of this table as the child, sorted by name
  std::string frm;            // content of the .frm file; empty for partitions, and #sql- copies without one
  std::string par;            // content of the .par file; only the entry of a whole partitioned table has it
  bool logical_only = false;  // the entry of a whole partitioned table: it has frm and par, but no rows
  uint64_t created_us = 0;
  // The former name of a table that an ALTER has renamed to an internal name (#sql-backup-...), or the former
  // database/name of a partitioned table or a partition that was renamed. Recovery gives the table this name
  // back if the server's DDL log cannot undo the statement, or was lost.
  std::string former_name;
  // The oldest snapshot that sees the table's present rows. An older snapshot was taken before the table was
  // created, filled by a copy or truncated, so it would see an empty table.
  UnstoredSequence readable_from;
  FormerPlace former_place;

  bool operator==(const TableDef &) const = default;

  // Whether `count` further indexes can have ordinals. The ordinal of a dropped index is never used again, so
  // after some 65,000 indexes a table has none left. The caller then makes a copy of the table, whose
  // definition begins with the first ordinal.
  bool has_ordinals(size_t count) const { return next_ordinal + count < UINT16_MAX; }
};

using TablePtr = std::shared_ptr<const TableDef>;

// A key prefix in the shared family that is reserved for the rows of one table, and what is needed to give it
// up.
struct Place {
  uint32_t prefix = 0;  // the first 4 bytes of the rows' keys; 0: no place is reserved
  uint64_t doomed = 0;  // number of a kDoomed record: as long as it exists, a restart deletes the rows
};

// What a clone gets from its source besides the definition.
struct Belongings {
  // The ordinals of dropped indexes whose entries reclaim() has not deleted yet. The clone may get these
  // entries too, so they must be deleted there.
  std::vector<uint16_t> dropped_indexes;
  uint64_t auto_increment = 0;  // see Catalog::auto_increment()
  std::string statistics;
};

// The ordinals of those indexes of the table whose entries are to be deleted, according to `pending`, or
// whose build has not finished.
struct Doomed;
std::vector<uint16_t> dropped_indexes(const TableDef &table, const std::vector<Doomed> &pending);

// A clone that is not stored yet: its rows are in a family of its own or at the reserved `place`.
struct Clone {
  TableDef def;
  Place place;
  Belongings belongings = {};
};

// A database (SQL schema) with tables in the catalog, so that a server with an empty data directory can
// make its directory again.
struct DatabaseDef {
  std::string name;     // the name of its directory
  std::string options;  // content of db.opt
  bool operator==(const DatabaseDef &) const = default;
};

// A file of triggers (.TRG, .TRN), which the server keeps beside the .frm. The catalog keeps a copy.
struct SideFile {
  std::string database, file_name, content;
  bool operator==(const SideFile &) const = default;
};

// Where the statements of atoll_mask_file have run, by the uuids of databases. A clone of a database begins
// with the record of its parent.
struct MaskingRecord {
  std::string done_in;   // the database in which all of them have run last; "": they have never run
  std::string begun_in;  // the database in which they have begun and have not all ended; "": there is none
};

// True for names that the server gives to tables during an ALTER ("#sql-...").
bool is_internal(std::string_view name);

// Returns the table's name; for a partition ("t#P#p0"), the name of its whole table. Works on paths as well.
std::string_view whole_table(std::string_view name);
bool is_partition(std::string_view name);
// Tables that change databases (plugin/tables/) have these internal names, followed by the id of the
// hand-over: in the database that gives a table away, until the other one has it; and in the database that
// takes it, until that is decided. TableDef::former_name is the name before, or the name that the table gets.
inline constexpr std::string_view kGivenPrefix = "#sqlh-";
inline constexpr std::string_view kTakenPrefix = "#sqlt-";
bool is_changing_databases(std::string_view name);
// Whether a table or partition has the internal name that Catalog::holds_drops gives to dropped ones.
bool is_held_drop(std::string_view name);

// A database as the catalog of a past state has it.
struct PastSchema {
  std::vector<TablePtr> tables;               // except those under internal names
  std::map<uint32_t, Belongings> belongings;  // by table id
  std::string options;                        // content of db.opt
  MaskingRecord masking;                      // of all databases
};

// What happens to the old table of an ALTER that a crash interrupted, or to a table whose drop was held
// (Catalog::holds_drops). That table has an internal name, and no table of the catalog has its former name.
// The caller of finish_interrupted_alters() chooses it, because only the caller knows the tables of other
// engines and whether the server's DDL log was there.
enum class Fate {
  kPutBack,  // the table gets its former name back, because no other table has that name
  kKeep,     // the table is kept under an internal name: another engine's table has its former name
  kDrop,     // the table is dropped: the ALTER has finished its new table, which belongs to another engine,
             // or the server's recovery from its DDL log has dropped the table
};

// What finish_interrupted_alters() did, as database/name.
struct FinishedAlters {
  std::vector<std::string> put_back;  // tables that have their former name again
  std::vector<std::string> dropped;   // copies that are not needed, and old tables that an ALTER replaced
  std::vector<std::string> kept;      // old tables of Fate::kKeep, by their new names #sqlx-...
};

using Counters = std::map<uint32_t, uint64_t>;  // table id -> the next AUTO_INCREMENT value to give out

// The catalog of one open database. The Engine opens it after the families and destroys it before them.
// Threads: any. A TablePtr that it returns never changes, and stays valid as long as somebody holds it;
// a changed definition is another object.
class Catalog {
 public:
  using FateOf = std::function<Fate(const TableDef &)>;

  // Loads the whole catalog. Drops half-built indexes, and gives up families that no table names.
  // Errors: kCorruption.
  static Status open(lsm::Rows *rows, lsm::Families *families, std::unique_ptr<Catalog> *out);
  ~Catalog();

  // Reads a database from the catalog family of a past state of the server. Changes nothing. Errors:
  // kCorruption; kNotFound (the database had no tables).
  static Status read(lsm::Family *catalog, std::string_view database, PastSchema *out);

  // Loads the catalog of a past state, or of a state of another server's database, from its catalog family.
  // Only the functions that change nothing may be called. Errors: kCorruption.
  static Status open_past(lsm::Family *catalog, std::unique_ptr<Catalog> *out);

  // nullptr: no such table. No I/O.
  TablePtr find(std::string_view database, std::string_view name) const;
  TablePtr find(uint32_t table_id) const;
  std::vector<TablePtr> list(std::string_view database) const;  // "" = of all databases
  // The table of that name, if there is one, and after it all its partitions.
  std::vector<TablePtr> with_partitions(std::string_view database, std::string_view whole) const;
  // The tables that have a FOREIGN KEY to that table, whether it exists or not; itself included if it refers
  // to itself. Tables under internal names (is_internal()) have no parents. No I/O.
  // `set_aside`: instead of these, the ones that an ALTER with a copy has renamed to an internal name, and
  // whose former_name the new table will get.
  std::vector<TablePtr> children_of(std::string_view database, std::string_view table,
                                    bool set_aside = false) const;
  // The table of the database that has a constraint of that name, with upper and lower case the same;
  // nullptr: there is none. Tables under internal names do not count. No I/O.
  TablePtr with_foreign_key(std::string_view database, std::string_view constraint) const;
  uint64_t generation() const;  // a number that grows with each change of a definition

  // Gives the table an id, a family (one of its own if `own_family`) and a prefix, enters them in `def` and
  // stores it. Errors: kDuplicate (exists), kInvalid (another table of the database has a constraint of the
  // same name), kUnavailable, kFenced, kNoSpace, kReadOnly.
  Status create(TableDef *def, bool own_family);
  // Reserves places in the shared family for rows of tables that are not stored yet. Until add_clones()
  // stores the tables, give_up() and a restart after a crash have the rows at these places deleted.
  // Errors: as create().
  Status reserve(size_t count, std::vector<Place> *places);
  void give_up(const std::vector<Place> &places) noexcept;
  // What a clone of the table gets. The caller asks before it copies or shares the table's entries.
  Belongings belongings(const TableDef &table) const;
  // Stores the definitions of clones, all in one write. Errors: as create(); after kDuplicate and kInvalid
  // nothing was written.
  Status add_clones(const std::vector<Clone> &clones);
  // Replaces stored definitions, all in one write. reclaim() later deletes the entries of indexes that a new
  // definition lacks. When a table has moved out of the shared family, reclaim() deletes its old rows once no
  // snapshot older than the table's readable_from is held. When it has moved out of a family of its own, that
  // family is dropped at once. `counters`: AUTO_INCREMENT counters to store in the same write, by table id.
  // TableDef::foreign_keys of `defs` do not count: the stored constraints stay, except for `changes` of the
  // first table of `defs` and of its children. Errors: kNotFound, and as create().
  Status update(const std::vector<TableDef> &defs, const Counters &counters,
                const ForeignKeyChanges &changes = {});
  Status update(const std::vector<TableDef> &defs);
  Status update(const TableDef &def) { return update(std::vector<TableDef>{def}); }
  // As update(), but the write is not synced. Rows::sync_wal() syncs what several calls have written.
  Status update_unsynced(const TableDef &def);
  // Stores the description of a table that has none, because an earlier version of Atoll has made its entry.
  // The write is not synced: if it is lost, the next open of the table repeats it. *out: the definition with
  // its description. Errors: as update(); kBug if the description is impossible.
  Status describe(uint32_t table_id, const TableDescription &description, TablePtr *out);
  // Creates or replaces the entry of a whole partitioned table, which has a definition but no rows of its
  // own. Errors: as create() and update().
  Status put_partitioned(TableDef table);
  // Renames a table. `references`: how its constraints and those of its children follow, in the same write.
  // Errors: kNotFound, kDuplicate (a table has the new name), kInvalid (another table of the database has a
  // constraint with the new name of a constraint), and as create().
  Status rename(std::string_view database, std::string_view name, std::string_view new_database,
                std::string_view new_name, const RenamedReferences &references = {});
  // As rename(), for a table with all its partitions, in one write.
  Status rename_partitioned(std::string_view database, std::string_view whole, std::string_view new_database,
                            std::string_view new_whole);
  // While this is true, drop() and drop_partitioned() do not drop a table with an ordinary name: they rename
  // it to an internal name (is_held_drop()), for finish_interrupted_alters() to decide. The server's recovery
  // from its DDL log needs that. To finish an ALTER with a copy it drops the old table before it renames the
  // new one (MariaDB 10.11.18, sql/ddl_log.cc, DDL_ALTER_TABLE_PHASE_COPIED). If this machine were lost
  // between the two, the bucket would have no table of that name, and no DDL log that says which copy should
  // get it.
  std::atomic<bool> holds_drops = false;
  // Finishes ALTERs that a crash interrupted and that the server's DDL log did not finish, for example
  // because the log is lost. Afterwards the copies that these ALTERs made are gone, and each old table is
  // complete or, where `fate` says so, dropped. `fate` is asked about an old table when no table of the
  // catalog has its former name. Requires: no statement runs. Errors: as rename() and drop().
  Status finish_interrupted_alters(const FateOf &fate, FinishedAlters *done);
  // Removes the table from the catalog in one synced write. Drops its own family at once; rows in the shared
  // family are deleted later by reclaim(). Errors: kNotFound, and as create().
  Status drop(std::string_view database, std::string_view name);
  // As drop(), for a partitioned table with all its partitions. All are dropped in one write, so a crash
  // cannot leave some of them.
  Status drop_partitioned(std::string_view database, std::string_view whole);
  // Empties the table: it gets a new prefix or a new family, and keeps its name, id and columns. *out: the
  // new definition.
  Status truncate(std::string_view database, std::string_view name, TablePtr *out);
  // Gives a table that lives in the shared family (and is still empty) a family of its own.
  Status move_to_own_family(uint32_t table_id, TablePtr *out);

  // Deletes the rows and entries of dropped and truncated tables and of dropped indexes, with one range
  // deletion for ranges that touch. The background thread calls it each second. It makes no I/O when there is
  // nothing to delete. Ranges that could not be deleted stay in the catalog for the next call, also over a
  // restart. Errors: as lsm::Families::delete_range.
  Status reclaim();
  bool is_reclaimed() const;  // whether there is nothing left for reclaim() to delete, also later

  // The next AUTO_INCREMENT value to give out, as it was stored or raised last. 0: there is none.
  uint64_t auto_increment(uint32_t table_id) const;
  // The key and the value that a transaction puts into its own batch (catalog family), so that the counter
  // commits with the rows. After the commit the transaction calls raise_auto_increment().
  static std::string auto_increment_key(uint32_t table_id);
  static std::string auto_increment_value(uint64_t next);
  // Raises the counter in memory, and never lowers it: transactions can commit in another order than they
  // reserved values, and a table can be closed before such transactions have committed. On disk the counter
  // is the value of the transaction that committed last, which may be too small. So the handler also
  // looks at the largest value in the index when it opens a table.
  void raise_auto_increment(uint32_t table_id, uint64_t next);
  Status set_auto_increment(uint32_t table_id, uint64_t next);  // for a new table; one synced write

  // Sets the statistics for the optimizer, which are approximate. They reach the disk, and so survive a
  // restart, only with the next write_statistics().
  void set_statistics(uint32_t table_id, std::string blob);
  std::string statistics(uint32_t table_id) const;
  Status write_statistics();  // writes those that changed since the last call, without a sync

  // Databases and side files are stored so that an empty data directory can be rebuilt from the catalog.
  Status put_database(const DatabaseDef &def);  // writes nothing when the stored definition is equal
  // From now on the catalog remembers the database even when it has no tables. Writes once for a database.
  Status keep_database(const std::string &name);
  // Removes the database, its side files and its tables with internal names. The server has dropped all other
  // tables before, but it does not see those with internal names.
  Status drop_database(std::string_view name);
  std::vector<DatabaseDef> databases() const;
  Status put_side_file(const SideFile &file);  // empty content: removes it; equal content: writes nothing
  std::vector<SideFile> side_files() const;
  MaskingRecord masking() const;
  // Both make one synced write. `uuid`: the uuid of this database.
  Status begin_masking(const std::string &uuid);
  Status end_masking(const std::string &uuid);

 private:
  // The tables with internal names in a database; "" = in all databases.
  std::vector<TablePtr> tables_aside(std::string_view database) const;
  bool is_nameless(const TableDef &table) const;
  Status finish_alter(const TableDef &table, const FateOf &fate, FinishedAlters *done);
  Status keep(const TableDef &table, FinishedAlters *done);
  Status put_back(const TableDef &table, FinishedAlters *done);
  Status rename_aside(const TableDef &table, std::string_view name);
  Status drop_aside(const TableDef &table, FinishedAlters *done);
  struct Impl;
  explicit Catalog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace atoll::catalog
