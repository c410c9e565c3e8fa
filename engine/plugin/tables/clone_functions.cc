// See clone_functions.h.
#include "handler/server.h"

#include "plugin/snapshots/clone_functions.h"

#include <mdl.h>
#include <sql_acl.h>
#include <sql_db.h>
#include <sql_parse.h>

#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "engine/running.h"
#include "handler/ddl/definition.h"
#include "handler/ddl/prepared_writers.h"
#include "handler/ddl/table_name.h"
#include "plugin/snapshots/action_function.h"
#include "plugin/snapshots/sql_names.h"
#include "plugin/snapshots/table_text.h"
#include "table/clone/table_clone.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;

constexpr uint kPrivilegeNamesMax = 128;     // as in the server (check_grant() in sql/sql_acl.cc)
const Status kReported(Code::kInvalid, "");  // the server has reported the error already

// The names of a table: in SQL (database, table) and in the catalog (directory, file).
struct Name {
  std::string database, table;
  std::string directory, file;

  std::string shown() const { return "'" + database + "." + table + "'"; }
};

struct Pair {
  Name source, clone;
  bool is_of_schema = false;  // all tables of the schema get clones, which keep their constraints
};

// Checks that the schema exists. Errors: kInvalid.
Status check_is_there(const std::string &schema) {
  return check_db_dir_existence(schema.c_str())
             ? Status(Code::kInvalid, "there is no schema '" + schema + "'")
             : Status::Ok();
}

Name name_of(const std::string &database, const std::string &table) {
  return {database, table, handler::file_name_of(database.c_str()), handler::file_name_of(table.c_str())};
}

Status parse_name(THD *thd, const std::string &argument, Name *name) {
  TableText text;
  ATOLL_RETURN_IF_ERROR(parse_table_text(argument, &text));
  if (text.database.empty() && thd->db.str == nullptr)
    return Status(Code::kInvalid, "no schema is in use: write 'schema.table' for '" + argument + "'");
  if (text.database.empty()) text.database.assign(thd->db.str, thd->db.length);
  ATOLL_RETURN_IF_ERROR(read_schema_name(&text.database));
  ATOLL_RETURN_IF_ERROR(read_table_name(&text.table));
  *name = name_of(text.database, text.table);
  return Status::Ok();
}

// ---- Checks and locks ---------------------------------------------------------------------------

// Checks whether the statement is allowed to make tables. Errors: kInvalid, kReadOnly, or kReported.
Status may_change(THD *thd) {
  if (thd->locked_tables_mode != LTM_NONE)
    return Status(Code::kInvalid, "not under LOCK TABLES: UNLOCK TABLES first");
  if (thd->in_active_multi_stmt_transaction())
    return Status(Code::kInvalid, "not in a transaction: COMMIT first");
  if (thd->has_read_only_protection()) return kReported;
  if (opt_readonly && !(thd->security_ctx->master_access & PRIV_IGNORE_READ_ONLY))
    return Status(Code::kReadOnly, "the server runs with --read-only");
  return Status::Ok();
}

// Refuses a mounted schema as the target. As a source it is welcome: so a table of the past comes back.
Status refuse_mounted_target(const std::string &clone) {
  return handler::refuse_mounted(handler::file_name_of(clone.c_str()));
}

Status lock(THD *thd, MDL_key::enum_mdl_namespace kind, const std::string &database, const std::string &table,
            enum_mdl_type type) {
  MDL_request request;
  MDL_REQUEST_INIT(&request, kind, database.c_str(), table.c_str(), type, MDL_STATEMENT);
  return thd->mdl_context.acquire_lock(&request, thd->variables.lock_wait_timeout) ? kReported : Status::Ok();
}

// Locks the name of the clone as CREATE TABLE does, and locks the source so that its writers wait.
Status lock(THD *thd, const Pair &pair) {
  ATOLL_RETURN_IF_ERROR(lock(thd, MDL_key::SCHEMA, pair.clone.database, "", MDL_INTENTION_EXCLUSIVE));
  ATOLL_RETURN_IF_ERROR(lock(thd, MDL_key::TABLE, pair.clone.database, pair.clone.table, MDL_EXCLUSIVE));
  return lock(thd, MDL_key::TABLE, pair.source.database, pair.source.table, MDL_SHARED_NO_WRITE);
}

// Returns the name in the type that the server's functions take.
LEX_CSTRING lex(const std::string &name) { return {name.data(), name.size()}; }

// Checks that the user has the privileges on the table as a whole. check_one_table_access() also accepts a
// user who has them on some columns only, because the server checks the columns of its own statements later.
// But a clone has all columns. Errors: kReported.
Status check_privileges(THD *thd, const Name &name, privilege_t privileges) {
  const LEX_CSTRING database = lex(name.database), table = lex(name.table);
  TABLE_LIST one;
  one.init_one_table(&database, &table, nullptr, TL_READ);
  if (check_one_table_access(thd, privileges, &one)) return kReported;
  const privilege_t missing = privileges & ~one.grant.privilege;
  if (missing == NO_ACL) return Status::Ok();
  char command[kPrivilegeNamesMax];
  get_privilege_desc(command, sizeof(command), missing);
  const Security_context *user = thd->security_ctx;
  my_error(ER_TABLEACCESS_DENIED_ERROR, MYF(0), command, user->priv_user, user->host_or_ip,
           name.database.c_str(), name.table.c_str());
  return kReported;
}

// ---- Making the clones --------------------------------------------------------------------------

Status refuse_taken(THD *thd, const Name &name) {
  const LEX_CSTRING database = lex(name.database), table = lex(name.table);
  if (!ha_table_exists(thd, &database, &table)) return Status::Ok();
  return Status(Code::kInvalid, "there is a table " + name.shown() + " already");
}

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
    if (!mount && handler::refuse_for_prepared_writers(*table)) return kReported;
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
  engine::Engine *running = engine::running();
  for (const Pair &pair : pairs) {
    for (const catalog::TablePtr &table :
         running->catalog()->with_partitions(pair.source.directory, pair.source.file)) {
      if (!table->own_family) continue;
      lsm::Family *family = running->database()->find_family(table->family_id);
      if (family != nullptr) ATOLL_RETURN_IF_ERROR(running->database()->flush(family));
    }
  }
  return running->gate().publish_all();
}

// Writes the .frm and .par files of a clone. If this fails, the server finds the table by discovery.
void write_files(const Pair &pair) {
  const catalog::TablePtr table = engine::running()->catalog()->find(pair.clone.directory, pair.clone.file);
  if (!table) return;
  const fs::path path = fs::path(mysql_real_data_home) / pair.clone.directory / pair.clone.file;
  const auto write = [&](const char *extension, const std::string &content) {
    if (content.empty()) return;
    const std::string file = path.string() + extension;
    if (write_content(file, content)) return;
    log_warning("cannot write " + file);
    std::error_code ignored;
    fs::remove(file, ignored);
  };
  write(".par", table->par);
  write(".frm", table->frm);
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
  ATOLL_RETURN_IF_ERROR(lock(thd, MDL_key::BACKUP, "", "", MDL_BACKUP_DDL));
  for (const Pair &pair : pairs) ATOLL_RETURN_IF_ERROR(lock(thd, pair));
  std::vector<table::CloneOrder> orders;
  for (const Pair &pair : pairs) ATOLL_RETURN_IF_ERROR(add_orders(thd, pair, mount, &orders));
  ATOLL_RETURN_IF_ERROR(running->catalog()->keep_database(pairs.front().clone.directory));
  const table::ClonePlace place{running->database(), running->database(), running->catalog(), past.get()};
  ATOLL_RETURN_IF_ERROR(table::clone_tables(place, orders, [] { return is_interrupted(); }));
  for (const Pair &pair : pairs) write_files(pair);
  return running->gate().after_ddl();
}

const char *binary_log_note() { return opt_bin_log ? "; the binary log has nothing of it" : ""; }

Status clone_table(const std::vector<std::string> &arguments, std::string *what) {
  THD *thd = current_thd;
  Pair pair;
  ATOLL_RETURN_IF_ERROR(may_change(thd));
  ATOLL_RETURN_IF_ERROR(parse_name(thd, arguments[0], &pair.source));
  ATOLL_RETURN_IF_ERROR(parse_name(thd, arguments[1], &pair.clone));
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
  ATOLL_RETURN_IF_ERROR(may_change(thd));
  ATOLL_RETURN_IF_ERROR(read_schema_name(&source));
  ATOLL_RETURN_IF_ERROR(read_schema_name(&clone));
  // Privileges on single tables of the schema are not enough, because all its tables are cloned.
  if (check_access(thd, SELECT_ACL, source.c_str(), nullptr, nullptr, true, false) ||
      check_access(thd, CREATE_ACL | INSERT_ACL, clone.c_str(), nullptr, nullptr, true, false))
    return kReported;
  ATOLL_RETURN_IF_ERROR(check_is_there(source));
  ATOLL_RETURN_IF_ERROR(check_is_there(clone));
  ATOLL_RETURN_IF_ERROR(refuse_mounted_target(clone));
  const std::string directory = handler::file_name_of(source.c_str());
  std::vector<Pair> pairs;
  std::set<std::string> names;
  for (const catalog::TablePtr &table : handler::definitions_in(directory)) {
    if (catalog::is_internal(table->name) || catalog::is_partition(table->name)) continue;
    const std::string name = handler::sql_name(table->name);
    pairs.push_back({name_of(source, name), name_of(clone, name), true});
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
