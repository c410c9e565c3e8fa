// Table definitions, ids and schema versions, stored in the database itself (the catalog family), so that
// a bucket alone is enough to serve every table. Cached in memory whole: lookups make no I/O.
//
// Record formats: docs/internals/formats-catalog.md. One row of the catalog = one logical object.
//
// Invariants
//   CAT-1  A table id, index ordinal or column id is never used twice (within server, table, table).
//   CAT-2  A family exists before the catalog row that names it, and goes after that row is gone (gate
//          PUB-G7).
//   CAT-3  Every change of a definition is one atomic, synced write.
#pragma once

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
#include "codec/row_codec.h"
#include "lsm/rows.h"

namespace atoll::catalog {

// An index as stored. The primary key (or the hidden one) takes the first ordinal that is free when it is
// defined; ordinals grow and are never reused.
struct IndexDef {
  std::string name;  // "PRIMARY", user's name, or "" for the hidden primary key
  uint16_t ordinal = 0;
  bool unique = false;
  bool building = false;  // ADD INDEX not finished: invisible, dropped at open
  // Not stored: the oldest snapshot (RocksDB's sequence number) at which the index has all its entries.
  uint64_t readable_from = 0;
  bool operator==(const IndexDef &) const = default;
};

// How rows of one schema version are laid out (codec::RowCodec).
struct SchemaVersion {
  uint32_t version = 1;
  std::vector<codec::PastColumn> columns;
  bool operator==(const SchemaVersion &other) const;
};

// A sequence number of RocksDB, valid only until the server stops. It is not stored, and two definitions that
// differ in nothing else compare as equal.
struct UnstoredSequence {
  uint64_t number = 0;
  bool operator==(const UnstoredSequence &) const { return true; }
};

// Where the rows were before the mover moved the table out of the shared family. The old rows stay there as
// long as a snapshot exists that is older than the move. Not stored, and two definitions that differ in
// nothing else compare as equal.
struct FormerPlace {
  lsm::Family *family = nullptr;  // nullptr: there is none
  uint32_t prefix = 0;
  uint64_t readable_from = 0;  // TableDef::readable_from before the move
  bool operator==(const FormerPlace &) const { return true; }
};

// Everything about one physical table: a table, or one partition ("t#P#p0").
struct TableDef {
  uint32_t id = 0;
  std::string database;  // as in the file name (encoded, e.g. "db@002d1")
  std::string name;      // as in the file name; partitions with #P#..., temporary copies #sql-...
  uint32_t family_id = 0;
  uint32_t prefix = 0;  // first 4 key bytes: 0 in a family of its own
  bool own_family = false;
  lsm::Compression compression;
  bool compression_explicit = false;
  bool hidden_primary_key = false;
  uint32_t next_column_id = 1;
  uint16_t next_ordinal = 1;
  std::vector<IndexDef> indexes;        // [0] is the primary (or hidden) key
  std::vector<uint32_t> column_ids;     // by field number of stored columns (see handler/table_share.h)
  std::vector<SchemaVersion> versions;  // ascending; the last one is current
  // The defaults of columns that were added without rewriting the rows that were there already.
  std::vector<codec::ColumnDefault> defaults;
  std::string frm;            // frm image; empty for partitions and #sql- copies without one
  std::string par;            // .par image of a partitioned table's logical entry
  bool logical_only = false;  // the partitioned table itself: frm and par, no data
  uint64_t created_us = 0;
  // The former name of a table that an ALTER has put aside under an internal name (#sql-backup-...), or of a
  // partitioned table that was renamed (database/name). Recovery needs it where the server's DDL log cannot
  // undo a statement, or was lost.
  std::string former_name;
  // The oldest snapshot that sees the rows which are there. Older ones were taken before the table was made,
  // filled by a copy or truncated: they would see it empty.
  UnstoredSequence readable_from;
  FormerPlace former_place;

  bool operator==(const TableDef &) const = default;
};

using TablePtr = std::shared_ptr<const TableDef>;

// Where the rows of one table are in the shared family.
struct Place {
  uint32_t prefix = 0;  // 0: none
  uint64_t doomed = 0;  // number of the record by which a restart after a crash deletes the rows
};

// A clone that is not stored yet: `def.id` is still the id of its source, and its rows are in a family of its
// own or at the reserved `place`.
struct Clone {
  TableDef def;
  Place place;
  std::vector<uint16_t> dropped_indexes = {};  // see Catalog::dropped_indexes()
};

struct DatabaseDef {
  std::string name;     // directory name
  std::string options;  // content of db.opt
  bool operator==(const DatabaseDef &) const = default;
};

// A file the server keeps beside the .frm and we keep a copy of: triggers (.TRG, .TRN).
struct SideFile {
  std::string database, file_name, content;
  bool operator==(const SideFile &) const = default;
};

// True for names the server makes for itself while altering ("#sql-...").
bool is_internal(std::string_view name);

// Returns the table's name; for a partition ("t#P#p0"), the name of its whole table. Works on paths as well.
std::string_view whole_table(std::string_view name);
bool is_partition(std::string_view name);

// What happens to the old table of an ALTER that was cut off. That table has an internal name, and no table
// of the catalog has its former name.
enum class Fate {
  kPutBack,  // it gets its former name back: nothing else has the name
  kKeep,     // it is kept: a table of another engine has the name
  kDrop,     // it is dropped: the other engine's table with the name is the ALTER's new one, and complete
};

// What finish_interrupted_alters() did, as database/name.
struct FinishedAlters {
  std::vector<std::string> put_back;  // have their name again
  std::vector<std::string> dropped;   // copies that nobody needs, and old tables (Fate::kDrop)
  std::vector<std::string> kept;      // old tables whose name another engine has now: called #sqlx-...
};

class Catalog {
 public:
  using FateOf = std::function<Fate(const TableDef &)>;

  // Loads everything. Drops half-built indexes and reconciles families. Errors: kCorruption.
  static Status open(lsm::Rows *rows, lsm::Families *families, std::unique_ptr<Catalog> *out);
  ~Catalog();

  // Reads from the catalog family of a past state what that state says of one database: its tables except
  // those under internal names, and its db.opt. Changes nothing. Errors: kCorruption; kNotFound (there were
  // no tables).
  static Status read(lsm::Family *catalog, std::string_view database, std::vector<TablePtr> *tables,
                     std::string *options);

  // The same for all databases, without partitioned tables, which have no rows of their own.
  static Status read_tables(lsm::Family *catalog, std::vector<TablePtr> *tables);

  // nullptr: no such table. No I/O.
  TablePtr find(std::string_view database, std::string_view name) const;
  TablePtr find(uint32_t table_id) const;
  std::vector<TablePtr> list(std::string_view database) const;  // "" = all
  // The table of that name, if there is one, and after it all its partitions.
  std::vector<TablePtr> with_partitions(std::string_view database, std::string_view whole) const;
  uint64_t generation() const;  // grows with each change

  // Gives the table an id, a family (own when asked) and a prefix, and stores it. `def` is completed in
  // place. Errors: kDuplicate (exists), kUnavailable, kFenced, kNoSpace, kReadOnly.
  Status create(TableDef *def, bool own_family);
  // Reserves places in the shared family for rows of tables that are not stored yet. Until add_clones()
  // stores the tables, a crash or give_up() removes what was written there. Errors: as create().
  Status reserve(size_t count, std::vector<Place> *places);
  void give_up(const std::vector<Place> &places) noexcept;
  // The ordinals of indexes that a table had, and whose entries reclaim() has not deleted yet. A clone asks
  // before it copies or shares entries: it may get these too.
  std::vector<uint16_t> dropped_indexes(const TableDef &table) const;
  // Stores clones of tables that are there, all in one write. Each gets the counter and the statistics of its
  // source. Errors: as create().
  Status add_clones(const std::vector<Clone> &clones);
  // Replaces stored definitions, all in one write. The entries of indexes that a new definition lacks go with
  // reclaim(), and so does what a table that has moved to another family leaves in the shared one, once no
  // snapshot older than its readable_from is held; a family of its own is dropped. Errors: kNotFound, and as
  // create().
  Status update(const std::vector<TableDef> &defs);
  Status update(const TableDef &def) { return update(std::vector<TableDef>{def}); }
  // Creates or replaces the entry of a partitioned table, which has a definition and no rows of its own.
  // Errors: as create() and update().
  Status put_partitioned(TableDef table);
  Status rename(std::string_view database, std::string_view name, std::string_view new_database,
                std::string_view new_name);
  // As rename(), for a table with all its partitions, in one write.
  Status rename_partitioned(std::string_view database, std::string_view whole, std::string_view new_database,
                            std::string_view new_whole);
  // Finishes ALTERs that were cut off and that the server's DDL log did not finish, or that were lost
  // together with that log. Afterwards no copy of their rows is left, and each old table is complete, unless
  // `fate` lets it be dropped. `fate` is asked about old tables whose former name the catalog does not have
  // any more. Requires: no statement runs. Errors: as rename() and drop().
  Status finish_interrupted_alters(const FateOf &fate, FinishedAlters *done);
  // Removes the row; one synced write. The rows' space is reclaimed by reclaim().
  // Errors: kNotFound, and as create().
  Status drop(std::string_view database, std::string_view name);
  // As drop(), for a partitioned table with all its partitions, in one write: no crash leaves some of them.
  Status drop_partitioned(std::string_view database, std::string_view whole);
  // New empty data under the same name: new prefix or family, same definition. *out: the new definition.
  Status truncate(std::string_view database, std::string_view name, TablePtr *out);
  // Gives a table that lives in the shared family (and is still empty) a family of its own.
  Status move_to_own_family(uint32_t table_id, TablePtr *out);

  // Range-deletes what dropped and truncated tables and dropped indexes left, neighbours in one range. Called
  // by the background thread each second; free when nothing is left. What fails is kept for the next call,
  // and over a restart. Errors: those of lsm::Families::delete_range.
  Status reclaim();

  // AUTO_INCREMENT: the next value to give out, as committed or known since. 0: none stored.
  uint64_t auto_increment(uint32_t table_id) const;
  // The key/value to put into a transaction's own batch (catalog family), so that the counter commits with
  // the rows; call raise_auto_increment() after the commit.
  static std::string auto_increment_key(uint32_t table_id);
  static std::string auto_increment_value(uint64_t next);
  // In memory only. Counters only grow here: transactions may commit in another order than they reserved
  // values, and a table may be closed before the transactions that reserved some have committed. What is
  // stored is the last committer's value, so at open the handler also looks at the largest value in the
  // index.
  void raise_auto_increment(uint32_t table_id, uint64_t next);
  Status set_auto_increment(uint32_t table_id, uint64_t next);  // ALTER, TRUNCATE: at once, durable

  // Row counts for the optimizer, kept across restarts; approximate. Written lazily.
  void set_statistics(uint32_t table_id, std::string blob);
  std::string statistics(uint32_t table_id) const;
  Status write_statistics();  // those set since the last call; not synced

  // Databases and side files, so that an empty data directory can be rebuilt.
  Status put_database(const DatabaseDef &def);  // no write when unchanged
  // From now on the catalog remembers the database even when it has no tables. One write, the first time.
  Status keep_database(const std::string &name);
  // Also drops the tables that are put aside under internal names: the server, which has dropped all other
  // tables before, does not see those.
  Status drop_database(std::string_view name);
  std::vector<DatabaseDef> databases() const;
  Status put_side_file(const SideFile &file);  // empty content = remove; no write when unchanged
  std::vector<SideFile> side_files() const;
  // The uuid of the database in which the statements of atoll_mask_file have run; "" if they never did. A
  // clone begins with its parent's.
  std::string masked_database() const;
  Status set_masked_database(const std::string &uuid);  // one synced write

 private:
  std::vector<TablePtr> tables_aside(std::string_view database) const;  // "" = in all
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
