#include "plugin/recovery/ddl_recovery.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "catalog/partition_list.h"
#include "plugin/recovery/definition_files.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;
using catalog::Catalog;
using catalog::TableDef;
using catalog::TablePtr;

bool is_there(const fs::path &file) {
  std::error_code error;
  return fs::exists(file, error);
}

// The server writes the .frm of a discovered table in place, so kill -9 may leave half of the file, and then
// the server cannot open the table. This function removes such a file. The catalog has the whole definition,
// and without the file the server discovers the table again.
void remove_torn_definitions(const std::vector<TablePtr> &tables, const fs::path &data_dir) {
  for (const TablePtr &table : tables) {
    if (table->frm.empty()) continue;
    const fs::path file = data_dir / table->database / (table->name + ".frm");
    std::error_code error;
    const uintmax_t bytes = fs::file_size(file, error);
    if (error || bytes >= table->frm.size()) continue;
    if (!std::string_view(table->frm).starts_with(content_of(file))) continue;
    if (fs::remove(file, error))
      log_warning("removed " + file.string() +
                  ", which was only half written; its table is discovered again");
  }
}

// The server renames a partitioned table in the engine first and its .frm last. After a crash in between, the
// server's DDL log cannot undo the statement, because it needs the .frm to know the engine of the partitions.
// This function renames the .frm, so that the DDL log can undo the statement.
void move_definitions_of_renamed(const Catalog &catalog, const std::vector<TablePtr> &tables,
                                 const fs::path &data_dir) {
  for (const TablePtr &table : tables) {
    const size_t slash = table->former_name.find('/');
    if (!table->logical_only || slash == std::string::npos) continue;
    const std::string database = table->former_name.substr(0, slash);
    const std::string name = table->former_name.substr(slash + 1);
    const fs::path now = data_dir / table->database / (table->name + ".frm");
    const fs::path before = data_dir / database / (name + ".frm");
    if (catalog::is_internal(name) || catalog.find(database, name) || is_there(now) ||
        content_of(before) != table->frm)
      continue;
    std::error_code error;
    fs::rename(before, now, error);
    log_warning("the renaming of " + before.string() + " was cut off; its definition now follows as " +
                now.string());
  }
}

// Returns a .par file with this content that has no .frm beside it; empty: there is none.
fs::path stray_partition_list(const fs::path &directory, std::string_view content) {
  for (const fs::path &file : entries_of(directory)) {
    if (file.extension() != ".par" || content_of(file) != content) continue;
    if (!is_there(fs::path(file).replace_extension(".frm"))) return file;
  }
  return {};
}

// RENAME TABLE renames the .par file, which lists the partitions, before the .frm. After a crash between the
// two, the catalog gives the partitions their old names back, but the .par file still has the new name. This
// function renames the .par file back, or writes it again if it is missing.
void put_back_partition_lists(const std::vector<TablePtr> &tables, const fs::path &data_dir) {
  for (const TablePtr &table : tables) {
    if (!table->logical_only || table->par.empty() || table->frm.empty()) continue;
    const fs::path directory = data_dir / table->database;
    const fs::path own = directory / (table->name + ".par");
    if (is_there(own) || content_of(directory / (table->name + ".frm")) != table->frm) continue;
    std::error_code error;
    const fs::path stray = stray_partition_list(directory, table->par);
    if (!stray.empty()) fs::rename(stray, own, error);
    if (stray.empty() || error) std::ofstream(own, std::ios::binary) << table->par;
    log_warning("made " + own.string() + " again, which was missing");
  }
}

fs::path file_of(const fs::path &data_dir, const TableDef &table, const char *extension) {
  return data_dir / table.database / (table.name + extension);
}

// Returns the name of the table whose .frm in `directory` has the content `frm`, apart from internal names
// (#sql-...); empty: there is none.
std::string name_of_definition(const fs::path &directory, std::string_view frm) {
  for (const fs::path &file : entries_of(directory))
    if (file.extension() == ".frm" && !catalog::is_internal(file.stem().string()) && content_of(file) == frm)
      return file.stem().string();
  return {};
}

// After a crash in an ALTER that brings a partitioned table from another engine, the server may roll the
// ALTER forward: it renames the .frm of the new table and asks the other engine to rename the partitions.
// This function renames the catalog's entry of the new table, its partitions and its .par file.
Status rename_after_definition(Catalog *catalog, const fs::path &data_dir) {
  for (const TablePtr &table : catalog->list("")) {
    if (!table->logical_only || table->frm.empty() || !catalog::is_internal(table->name) ||
        catalog::is_changing_databases(table->name))
      continue;
    const std::string name = name_of_definition(data_dir / table->database, table->frm);
    if (name.empty() || catalog->find(table->database, name)) continue;
    ATOLL_RETURN_IF_ERROR(catalog->rename_partitioned(table->database, table->name, table->database, name));
    std::error_code error;
    fs::rename(file_of(data_dir, *table, ".par"), data_dir / table->database / (name + ".par"), error);
    log_warning("an ALTER was cut off; the new table of " + table->database + "/" + name +
                " is in place now");
  }
  return Status::Ok();
}

// The names of all partitions, by the database and the name of their partitioned table.
using Partitions = std::map<std::pair<std::string, std::string>, std::set<std::string>>;

Partitions partitions_of(const std::vector<TablePtr> &tables) {
  Partitions partitions;
  for (const TablePtr &table : tables)
    if (catalog::is_partition(table->name))
      partitions[{table->database, std::string(catalog::whole_table(table->name))}].insert(table->name);
  return partitions;
}

// Whether `list` names exactly the partitions `partitions` of the table `whole`.
bool is_list_of(const std::optional<catalog::PartitionList> &list, const std::set<std::string> &partitions,
                const std::string &whole) {
  if (!list) return false;
  std::set<std::string> listed;
  for (const std::string &name : list->names) listed.insert(whole + "#P#" + name);
  return listed == partitions;
}

// Replaces the catalog's entry of a partitioned table by what its .frm and .par files say, if the entry is
// missing, is empty or lists other partitions than exist. This happens when the server's recovery finishes or
// undoes a statement on partitions by the files alone. An entry that lists the existing partitions is not
// changed: it may be newer than the files, which may be from a time before another server had the bucket.
Status follow_files(Catalog *catalog, const DataDirectory &directory, const std::string &database,
                    const std::string &name, const std::set<std::string> &partitions) {
  const TablePtr entry = catalog->find(database, name);
  if (entry && !entry->logical_only) return Status::Ok();
  if (entry && !entry->frm.empty() && is_list_of(catalog::parse_partition_list(entry->par), partitions, name))
    return Status::Ok();
  const fs::path file = directory.path / database / name;
  const std::string frm = content_of(file.string() + ".frm"), par = content_of(file.string() + ".par");
  const auto list = catalog::parse_partition_list(par);
  if (frm.empty() || !is_list_of(list, partitions, name) || !list->is_all_of(directory.own_type))
    return Status::Ok();
  TableDef table;
  if (entry) table = *entry;
  table.database = database;
  table.name = name;
  table.frm = frm;
  table.par = par;
  log_warning("a change of the partitioned table " + database + "/" + name +
              " was cut off; the catalog follows its files");
  return catalog->put_partitioned(std::move(table));
}

Status follow_all_files(Catalog *catalog, const DataDirectory &directory) {
  Status first_failure;
  for (const auto &[whole, partitions] : partitions_of(catalog->list(""))) {
    const auto &[database, name] = whole;
    if (catalog::is_internal(name)) continue;
    const Status status = follow_files(catalog, directory, database, name, partitions);
    if (first_failure.ok()) first_failure = status;
  }
  return first_failure;
}

// Decides about a table that the server's recovery from its DDL log has dropped (Catalog::holds_drops). If
// that log was of this catalog, the recovery has finished the statement. Otherwise the table is as before the
// statement; but a partition is not put back into a table that no longer lists it.
catalog::Fate fate_of_dropped(const TableDef &dropped, const Catalog &catalog,
                              const DataDirectory &directory) {
  if (!directory.is_older) return catalog::Fate::kDrop;
  const std::string_view whole = catalog::whole_table(dropped.former_name);
  const TablePtr entry = catalog.find(dropped.database, whole);
  if (!entry || whole == dropped.former_name) return catalog::Fate::kPutBack;
  const auto list = catalog::parse_partition_list(entry->par);
  const std::string partition = dropped.former_name.substr(whole.size() + std::string_view("#P#").size());
  const bool is_listed =
      list && std::find(list->names.begin(), list->names.end(), partition) != list->names.end();
  return is_listed ? catalog::Fate::kPutBack : catalog::Fate::kDrop;
}

// Decides about the old table of an ALTER that was cut off. Called only when the catalog has no table with
// the old table's former name.
catalog::Fate fate(const TableDef &aside, const Catalog &catalog, const DataDirectory &directory) {
  if (catalog::is_held_drop(aside.name)) return fate_of_dropped(aside, catalog, directory);
  const fs::path file = directory.path / aside.database / catalog::whole_table(aside.former_name);
  const std::string frm = content_of(file.string() + ".frm");
  const auto list = catalog::parse_partition_list(content_of(file.string() + ".par"));
  if (frm.empty() || frm == aside.frm || is_own(frm, list, directory.own_type))
    return catalog::Fate::kPutBack;
  // An ALTER renames the partitions of the new table first, then its .par file, then its .frm. So when this
  // .par file lists partitions, the new table is complete.
  const bool is_whole = list && list->is_built_in() && !directory.is_older;
  return is_whole ? catalog::Fate::kDrop : catalog::Fate::kKeep;
}

Status finish_alters(Catalog *catalog, const DataDirectory &directory) {
  catalog::FinishedAlters done;
  const Status status = catalog->finish_interrupted_alters(
      [&](const TableDef &aside) { return fate(aside, *catalog, directory); }, &done);
  for (const std::string &name : done.put_back)
    log_warning("an ALTER was cut off; " + name + " is as it was before");
  for (const std::string &name : done.dropped) log_warning("removed " + name + ", left by an ALTER cut off");
  for (const std::string &name : done.kept)
    log_warning("an ALTER was cut off; the old table is kept as " + name +
                ", because its name stands for a table of another engine");
  return status;
}

// Drops the entries of partitioned tables whose CREATE TABLE was cut off before it made the first partition
// and the .frm.
Status drop_empty_entries(Catalog *catalog, const fs::path &data_dir) {
  const std::vector<TablePtr> tables = catalog->list("");
  const Partitions partitions = partitions_of(tables);
  for (const TablePtr &table : tables) {
    if (!table->logical_only || partitions.contains({table->database, table->name})) continue;
    if (!content_of(file_of(data_dir, *table, ".frm")).empty()) continue;
    ATOLL_RETURN_IF_ERROR(catalog->drop(table->database, table->name));
    std::error_code error;
    for (const char *extension : {".frm", ".par"}) fs::remove(file_of(data_dir, *table, extension), error);
    log_warning("removed " + table->database + "/" + table->name + ", which was never made whole");
  }
  return Status::Ok();
}

// Removes .par files of ATOLL tables under internal names (#sql-...) that have no .frm beside them. Looks
// into all databases, because an ALTER that renames a table makes its files in the database of the new name.
void remove_stray_lists(const Catalog &catalog, const DataDirectory &directory) {
  for (const fs::path &database : directories_in(directory.path)) {
    for (const fs::path &file : entries_of(database)) {
      const std::string name = file.stem().string();
      if (file.extension() != ".par" || !catalog::is_internal(name)) continue;
      if (catalog.find(database.filename().string(), name) ||
          is_there(fs::path(file).replace_extension(".frm")))
        continue;
      const auto list = catalog::parse_partition_list(content_of(file));
      std::error_code error;
      if (list && list->is_all_of(directory.own_type) && fs::remove(file, error))
        log_warning("removed " + file.string() + ", left by an ALTER cut off");
    }
  }
}

// An ALTER that changes a table and moves it into another database renames it in the engine first and its
// .frm last. The server's DDL log does not finish this after a crash in between. This function gives the .frm
// the name of the table that has this definition and no .frm.
void move_definitions_of_altered(const Catalog &catalog, const DataDirectory &directory) {
  std::map<std::string, fs::path> missing;  // the paths of .frm files that are not there, by their content
  for (const TablePtr &table : catalog.list("")) {
    const fs::path file = file_of(directory.path, *table, ".frm");
    if (catalog::is_changing_databases(table->name)) continue;
    if (!table->frm.empty() && !is_there(file) && is_there(file.parent_path())) missing[table->frm] = file;
  }
  if (missing.empty()) return;
  each_own_definition(directory.path, directory.own_type, [&](const OwnDefinition &found) {
    const auto target = missing.find(found.frm);
    if (target == missing.end() || catalog.find(found.database, found.name)) return;
    std::error_code error;
    fs::rename(found.file, target->second, error);
    log_warning("an ALTER was cut off; " + found.file.string() + " is " + target->second.string() + " now");
  });
}

void set_aside(const fs::path &file, const fs::path &target) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  fs::rename(file, target, error);  // replaces a file that was set aside earlier
}

// Moves .frm and .par files that contradict the catalog to another directory. SHOW TABLES would list their
// tables, but no statement could read them.
void follow_catalog(const Catalog &catalog, const DataDirectory &directory) {
  each_own_definition(directory.path, directory.own_type, [&](const OwnDefinition &found) {
    const TablePtr table = catalog.find(found.database, found.name);
    if (table && (table->frm.empty() || table->frm == found.frm)) return;
    const fs::path target = directory.contradicted / found.database / found.file.filename();
    set_aside(fs::path(found.file).replace_extension(".par"), fs::path(target).replace_extension(".par"));
    set_aside(found.file, target);
    log_warning("the database that came from the bucket has " +
                std::string(table ? "another definition" : "no table") + " for " + found.file.string() +
                ", which is " + target.string() + " now");
  });
}

fs::path restore_mark(const fs::path &base_dir) { return base_dir / "restored"; }

}  // namespace

bool has_restore_mark(const fs::path &base_dir) { return is_there(restore_mark(base_dir)); }

void set_restore_mark(const fs::path &base_dir) {
  const std::string mark = restore_mark(base_dir).string();
  if (!write_content(mark, "")) log_warning("cannot write " + mark);
}

void clear_restore_mark(const fs::path &base_dir) {
  std::error_code ignored;
  fs::remove(restore_mark(base_dir), ignored);
}

void prepare_ddl_recovery(Catalog *catalog, const fs::path &data_dir) {
  const std::vector<TablePtr> tables = catalog->list("");
  remove_torn_definitions(tables, data_dir);
  move_definitions_of_renamed(*catalog, tables, data_dir);
  put_back_partition_lists(tables, data_dir);
  catalog->holds_drops = true;
}

Status finish_ddl_recovery(Catalog *catalog, const DataDirectory &directory) {
  // Each step runs even if another one failed, so that one table that cannot be repaired does not keep the
  // others from being repaired.
  const Status steps[] = {
      rename_after_definition(catalog, directory.path),
      follow_all_files(catalog, directory),
      finish_alters(catalog, directory),
      drop_empty_entries(catalog, directory.path),
  };
  move_definitions_of_altered(*catalog, directory);
  if (!directory.contradicted.empty()) follow_catalog(*catalog, directory);
  put_back_partition_lists(catalog->list(""), directory.path);
  remove_stray_lists(*catalog, directory);
  const auto failed =
      std::find_if(std::begin(steps), std::end(steps), [](const Status &status) { return !status.ok(); });
  return failed == std::end(steps) ? Status::Ok() : *failed;
}

}  // namespace atoll::plugin
