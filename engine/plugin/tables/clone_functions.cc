// See clone_functions.h.
#include "handler/server.h"

#include "plugin/tables/clone_functions.h"

#include <sql_parse.h>

#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/interrupt.h"
#include "engine/running.h"
#include "handler/ddl/definition.h"
#include "handler/ddl/prepared_writers.h"
#include "handler/ddl/table_name.h"
#include "plugin/snapshots/action_function.h"
#include "plugin/snapshots/sql_names.h"
#include "plugin/tables/table_steps.h"
#include "table/clone/table_clone.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;

struct Pair {
  TableNames source, clone;
  bool is_of_schema = false;  // all tables of the schema get clones, which keep their constraints
};

// ---- Checks and locks ---------------------------------------------------------------------------

// Refuses a mounted schema as the target. As a source it is welcome: so a table of the past comes back.
Status refuse_mounted_target(const std::string &clone) {
  return handler::refuse_mounted(handler::file_name_of(clone.c_str()));
}

// Locks the name of the clone as CREATE TABLE does, and locks the source so that its writers wait.
Status lock(THD *thd, const Pair &pair) {
  ATOLL_RETURN_IF_ERROR(lock_name_of_new(thd, pair.clone));
  return lock_name(thd, MDL_key::TABLE, pair.source.database, pair.source.table, MDL_SHARED_NO_WRITE);
}

// ---- Making the clones --------------------------------------------------------------------------

using MountPtr = std::shared_ptr<const engine::Mount>;  // nullptr: the sources are tables of the present

MountPtr mount_of(const std::vector<Pair> &pairs) {
  return engine::running()->mounts()->find(pairs.front().source.directory);
}

// Adds an order for the clone of the table, and one for each of its partitions.
Status add_orders(THD *thd, const Pair &pair, const MountPtr &mount, std::vector<table::CloneOrder> *orders) {
  ATOLL_RETURN_IF_ERROR(refuse_taken(thd, pair.clone));
  ATOLL_RETURN_IF_ERROR(check_is_there(pair.clone.database));  // DROP DATABASE may have run before the lock
  const catalog::Catalog *catalog = engine::running()->catalog();
  const auto tables = mount ? engine::Mount::with_partitions(mount, pair.source.file)
                            : catalog->with_partitions(pair.source.directory, pair.source.file);
  if (tables.empty()) return Status(Code::kInvalid, "there is no ATOLL table " + pair.source.shown());
  for (const catalog::TablePtr &table : tables) {
    // A prepared transaction may hold no metadata lock. It could commit to some partitions before the clone
    // is made, and to others afterwards.
    if (!mount && handler::refuse_for_prepared_writers(*table)) return reported_error();
    const std::string partition = table->name.substr(catalog::whole_table(table->name).size());
    orders->push_back({table, pair.clone.directory, pair.clone.file + partition,
                       mount ? mount->belongings(*table) : catalog->belongings(*table), pair.is_of_schema});
  }
  return Status::Ok();
}

// Uploads the table files that the clones will share. This comes before the statement locks the tables,
// because writers wait under these locks: only rows written since then are left to upload. Errors: those of
// CommitGate::publish_all().
Status bring_to_bucket(const std::vector<Pair> &pairs) {
  for (const Pair &pair : pairs) ATOLL_RETURN_IF_ERROR(flush_table(pair.source));
  return engine::running()->gate().publish_all();
}

// Makes the clones. Requires: the schemas and privileges have been checked.
Status clone(THD *thd, const std::vector<Pair> &pairs) {
  engine::Engine *running = engine::running();
  const MountPtr mount = mount_of(pairs);
  std::unique_ptr<lsm::PastDatabase> past;
  if (mount)
    ATOLL_RETURN_IF_ERROR(mount->open_with_tables(&past));
  else
    ATOLL_RETURN_IF_ERROR(bring_to_bucket(pairs));
  ATOLL_RETURN_IF_ERROR(lock_name(thd, MDL_key::BACKUP, "", "", MDL_BACKUP_DDL));
  for (const Pair &pair : pairs) ATOLL_RETURN_IF_ERROR(lock(thd, pair));
  std::vector<table::CloneOrder> orders;
  for (const Pair &pair : pairs) ATOLL_RETURN_IF_ERROR(add_orders(thd, pair, mount, &orders));
  ATOLL_RETURN_IF_ERROR(running->catalog()->keep_database(pairs.front().clone.directory));
  const table::ClonePlace place{running->database(), running->database(), running->catalog(), past.get()};
  ATOLL_RETURN_IF_ERROR(table::clone_tables(place, orders, [] { return is_interrupted(); }));
  for (const Pair &pair : pairs) write_definition_files(pair.clone);
  return running->gate().after_ddl();
}

const char *binary_log_note() { return opt_bin_log ? "; the binary log has nothing of it" : ""; }

Status clone_table(const std::vector<std::string> &arguments, std::string *what) {
  THD *thd = current_thd;
  Pair pair;
  ATOLL_RETURN_IF_ERROR(may_change_tables(thd));
  ATOLL_RETURN_IF_ERROR(parse_table_names(thd, arguments[0], &pair.source));
  ATOLL_RETURN_IF_ERROR(parse_table_names(thd, arguments[1], &pair.clone));
  // The privileges come before everything that tells whether a schema or table exists.
  ATOLL_RETURN_IF_ERROR(check_privileges(thd, pair.source, SELECT_ACL));
  ATOLL_RETURN_IF_ERROR(check_privileges(thd, pair.clone, CREATE_ACL | INSERT_ACL));
  ATOLL_RETURN_IF_ERROR(check_is_there(pair.source.database));
  ATOLL_RETURN_IF_ERROR(check_is_there(pair.clone.database));
  ATOLL_RETURN_IF_ERROR(refuse_mounted_target(pair.clone.database));
  ATOLL_RETURN_IF_ERROR(clone(thd, {pair}));
  *what = "table " + pair.clone.shown() + " is a clone of " + pair.source.shown() + binary_log_note();
  return Status::Ok();
}

// Counts the views and the tables of other engines in the schema. `tables`: the ATOLL tables.
size_t others_in(const std::string &directory, const std::set<std::string> &tables) {
  size_t others = 0;
  for (const fs::path &file : entries_of(fs::path(mysql_real_data_home) / directory)) {
    if (file.extension() == ".frm" && !tables.contains(file.stem().string())) others++;
  }
  return others;
}

Status clone_database(const std::vector<std::string> &arguments, std::string *what) {
  THD *thd = current_thd;
  std::string source = arguments[0], clone = arguments[1];
  ATOLL_RETURN_IF_ERROR(may_change_tables(thd));
  ATOLL_RETURN_IF_ERROR(read_schema_name(&source));
  ATOLL_RETURN_IF_ERROR(read_schema_name(&clone));
  // Privileges on single tables of the schema are not enough, because all its tables are cloned.
  if (check_access(thd, SELECT_ACL, source.c_str(), nullptr, nullptr, true, false) ||
      check_access(thd, CREATE_ACL | INSERT_ACL, clone.c_str(), nullptr, nullptr, true, false))
    return reported_error();
  ATOLL_RETURN_IF_ERROR(check_is_there(source));
  ATOLL_RETURN_IF_ERROR(check_is_there(clone));
  ATOLL_RETURN_IF_ERROR(refuse_mounted_target(clone));
  const std::string directory = handler::file_name_of(source.c_str());
  std::vector<Pair> pairs;
  std::set<std::string> names;
  for (const catalog::TablePtr &table : handler::definitions_in(directory)) {
    if (catalog::is_internal(table->name) || catalog::is_partition(table->name)) continue;
    const std::string name = handler::sql_name(table->name);
    pairs.push_back({table_names(source, name), table_names(clone, name), true});
    names.insert(table->name);
  }
  if (pairs.empty()) return Status(Code::kInvalid, "there is no ATOLL table in '" + source + "'");
  ATOLL_RETURN_IF_ERROR(plugin::clone(thd, pairs));
  const size_t others = others_in(directory, names);
  *what =
      std::to_string(pairs.size()) + " tables of '" + source + "' have clones in '" + clone + "'" +
      (others == 0 ? "" : "; " + std::to_string(others) + " views and tables of other engines have none") +
      binary_log_note();
  return Status::Ok();
}

}  // namespace

Create_func *clone_table_function() {
  static const SqlAction action{"atoll_clone_table",
                                2,
                                1,
                                ActionPrivilege::kReload,
                                "ATOLL_CLONE_TABLE('table', 'new table'): none of them is NULL",
                                clone_table};
  return action_function(&action);
}

Create_func *clone_database_function() {
  static const SqlAction action{"atoll_clone_database",
                                2,
                                1,
                                ActionPrivilege::kReload,
                                "ATOLL_CLONE_DATABASE('schema', 'other schema'): none of them is NULL",
                                clone_database};
  return action_function(&action);
}

}  // namespace atoll::plugin
