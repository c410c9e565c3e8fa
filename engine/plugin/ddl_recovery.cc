#include "plugin/ddl_recovery.h"

#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "catalog/partition_list.h"
#include "plugin/instance.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;
using catalog::Catalog;
using catalog::TableDef;
using catalog::TablePtr;

// The server writes the .frm of a discovered table in place: a kill -9 may leave half of it, and the table
// could not be opened any more. The catalog's copy is the truth; without the file the table is discovered
// anew.
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

// The server renames a partitioned table in the engine first and its .frm last. Cut off in between, its DDL
// log can undo nothing: it needs the .frm to know the engine of the partitions. With the file moved here, it
// can.
void move_definitions_of_renamed(const Catalog &catalog, const std::vector<TablePtr> &tables,
                                 const fs::path &data_dir) {
  for (const TablePtr &table : tables) {
    const size_t slash = table->former_name.find('/');
    if (!table->logical_only || slash == std::string::npos) continue;
    const std::string database = table->former_name.substr(0, slash);
    const std::string name = table->former_name.substr(slash + 1);
    const fs::path now = data_dir / table->database / (table->name + ".frm");
    const fs::path before = data_dir / database / (name + ".frm");
    if (catalog::is_internal(name) || catalog.find(database, name) || fs::exists(now) ||
        content_of(before) != table->frm)
      continue;
    std::error_code error;
    fs::rename(before, now, error);
    log_warning("the renaming of " + before.string() + " was cut off; its definition now follows as " +
                now.string());
  }
}

// A .par file of this content without a .frm; empty: there is none.
fs::path stray_partition_list(const fs::path &directory, std::string_view content) {
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(directory, error)) {
    const fs::path &file = entry.path();
    if (file.extension() != ".par" || content_of(file) != content) continue;
    if (!fs::exists(fs::path(file).replace_extension(".frm"))) return file;
  }
  return {};
}

// It renames the file that lists the partitions in between. Cut off after that, the catalog puts the
// partitions back, and the file stands under a name where nobody looks for it.
void put_back_partition_lists(const std::vector<TablePtr> &tables, const fs::path &data_dir) {
  for (const TablePtr &table : tables) {
    if (!table->logical_only || table->par.empty()) continue;
    const fs::path directory = data_dir / table->database;
    const fs::path own = directory / (table->name + ".par");
    if (fs::exists(own) || !fs::exists(directory / (table->name + ".frm"))) continue;
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

std::set<std::string> databases_of(const Catalog &catalog) {
  std::set<std::string> names;
  for (const TablePtr &table : catalog.list("")) names.insert(table->database);
  return names;
}

// The name under which the directory has this definition; empty: it has not.
std::string name_of_definition(const fs::path &directory, std::string_view frm) {
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() == ".frm" && !catalog::is_internal(name) && content_of(entry.path()) == frm)
      return name;
  }
  return {};
}

// When the ALTER of a partitioned table from another engine is rolled forward, the server moves the .frm of
// the new table and asks the other engine to rename the rest.
Status rename_after_definition(Catalog *catalog, const fs::path &data_dir) {
  for (const TablePtr &table : catalog->list("")) {
    if (!table->logical_only || !catalog::is_internal(table->name)) continue;
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

// The files' content when the server's recovery has changed it behind our back (statements on partitions), or
// made the entry's name anew.
Status follow_files(Catalog *catalog, const DataDirectory &directory, const std::string &database,
                    const std::string &name) {
  const fs::path file = directory.path / database / name;
  const std::string frm = content_of(file.string() + ".frm"), par = content_of(file.string() + ".par");
  const auto list = catalog::parse_partition_list(par);
  if (frm.empty() || !list || !list->is_all_of(directory.own_type)) return Status::Ok();
  const TablePtr entry = catalog->find(database, name);
  if (entry && (directory.is_older || !entry->logical_only)) return Status::Ok();
  if (entry && entry->frm == frm && entry->par == par) return Status::Ok();
  TableDef table;
  if (entry) table = *entry;
  table.database = database;
  table.name = name;
  table.logical_only = true;
  table.frm = frm;
  table.par = par;
  if (table.versions.empty()) table.versions.push_back({1, {}});
  log_warning("a change of the partitioned table " + database + "/" + name +
              " was cut off; the catalog follows its files");
  return entry ? catalog->update(table) : catalog->create(&table, false);
}

Status follow_all_files(Catalog *catalog, const DataDirectory &directory) {
  std::set<std::pair<std::string, std::string>> wholes;
  for (const TablePtr &table : catalog->list(""))
    if (catalog::is_partition(table->name) && !catalog::is_internal(table->name))
      wholes.emplace(table->database, catalog::whole_table(table->name));
  for (const auto &[database, name] : wholes)
    ATOLL_RETURN_IF_ERROR(follow_files(catalog, directory, database, name));
  return Status::Ok();
}

// Of the old table of an ALTER whose name the catalog does not have any more.
catalog::Fate fate(const TableDef &aside, const DataDirectory &directory) {
  const fs::path file = directory.path / aside.database / catalog::whole_table(aside.former_name);
  const std::string frm = content_of(file.string() + ".frm");
  if (directory.is_older || frm.empty() || frm == aside.frm) return catalog::Fate::kPutBack;
  // The new table's list gets its name after its partitions and before the .frm.
  const auto list = catalog::parse_partition_list(content_of(file.string() + ".par"));
  return list && !list->has(directory.own_type) ? catalog::Fate::kDrop : catalog::Fate::kKeep;
}

Status finish_alters(Catalog *catalog, const DataDirectory &directory) {
  catalog::FinishedAlters done;
  const Status status = catalog->finish_interrupted_alters(
      [&](const TableDef &aside) { return fate(aside, directory); }, &done);
  for (const std::string &name : done.put_back)
    log_warning("an ALTER was cut off; " + name + " is as it was before");
  for (const std::string &name : done.dropped) log_warning("removed " + name + ", left by an ALTER cut off");
  for (const std::string &name : done.kept)
    log_warning("an ALTER was cut off; the old table is kept as " + name +
                ", because its name stands for a table of another engine");
  return status;
}

// CREATE TABLE was cut off before the first partition and before its .frm file was written.
Status drop_empty_entries(Catalog *catalog, const fs::path &data_dir) {
  for (const TablePtr &table : catalog->list("")) {
    if (!table->logical_only || !content_of(file_of(data_dir, *table, ".frm")).empty()) continue;
    if (catalog->with_partitions(table->database, table->name).size() > 1) continue;
    ATOLL_RETURN_IF_ERROR(catalog->drop(table->database, table->name));
    std::error_code error;
    for (const char *extension : {".frm", ".par"}) fs::remove(file_of(data_dir, *table, extension), error);
    log_warning("removed " + table->database + "/" + table->name + ", which was never made whole");
  }
  return Status::Ok();
}

// Lists of partitions under names the server made for itself, without their .frm.
void remove_stray_lists(const Catalog &catalog, const std::set<std::string> &databases,
                        const DataDirectory &directory) {
  for (const std::string &database : databases) {
    std::error_code error;
    std::vector<fs::path> stray;
    for (const auto &entry : fs::directory_iterator(directory.path / database, error)) {
      const fs::path &file = entry.path();
      if (file.extension() != ".par" || !catalog::is_internal(file.stem().string())) continue;
      if (catalog.find(database, file.stem().string()) ||
          fs::exists(fs::path(file).replace_extension(".frm")))
        continue;
      const auto list = catalog::parse_partition_list(content_of(file));
      if (list && list->is_all_of(directory.own_type)) stray.push_back(file);
    }
    for (const fs::path &file : stray)
      if (fs::remove(file, error)) log_warning("removed " + file.string() + ", left by an ALTER cut off");
  }
}

}  // namespace

void prepare_ddl_recovery(const Catalog &catalog, const fs::path &data_dir) {
  const std::vector<TablePtr> tables = catalog.list("");
  remove_torn_definitions(tables, data_dir);
  move_definitions_of_renamed(catalog, tables, data_dir);
  put_back_partition_lists(tables, data_dir);
}

Status finish_ddl_recovery(Catalog *catalog, const DataDirectory &directory) {
  const std::set<std::string> databases = databases_of(*catalog);  // also of what is dropped now
  ATOLL_RETURN_IF_ERROR(rename_after_definition(catalog, directory.path));
  ATOLL_RETURN_IF_ERROR(follow_all_files(catalog, directory));
  ATOLL_RETURN_IF_ERROR(finish_alters(catalog, directory));
  ATOLL_RETURN_IF_ERROR(drop_empty_entries(catalog, directory.path));
  put_back_partition_lists(catalog->list(""), directory.path);
  remove_stray_lists(*catalog, databases, directory);
  return Status::Ok();
}

}  // namespace atoll::plugin
