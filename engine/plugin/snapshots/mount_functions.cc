// See mount_functions.h.
#include "handler/server.h"

#include <lock.h>
#include <mdl.h>
#include <sql_acl.h>
#include <sql_handler.h>
#include <sql_parse.h>
#include <sql_table.h>
#include <table_cache.h>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "engine/running.h"
#include "handler/ddl/table_name.h"
#include "handler/server/compat/names.h"
#include "plugin/masking/masking.h"
#include "plugin/snapshots/action_function.h"
#include "plugin/snapshots/moment_text.h"
#include "plugin/snapshots/sql_names.h"
#include "plugin/snapshots/mount_functions.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;

// A schema and its directory, whose name is the encoded name of the schema.
struct Schema {
  std::string sql_name;
  std::string directory_name;
  fs::path directory;
};

Status parse_schema(std::string name, Schema *schema) {
  ATOLL_RETURN_IF_ERROR(read_schema_name(&name));
  schema->directory_name = handler::file_name_of(name.c_str());
  schema->sql_name = std::move(name);
  schema->directory = fs::path(mysql_real_data_home) / schema->directory_name;
  return Status::Ok();
}

// Makes the directory of a mounted schema, with the file that marks a mount (kMountMarker), db.opt and .par
// files. Returns false when this fails; errno says why.
bool write_files(const Schema &schema, const std::shared_ptr<const engine::Mount> &mount) {
  const auto write = [&](const std::string &name, const std::string &content) {
    return write_content(schema.directory / name, content);
  };
  if (::mkdir(schema.directory.c_str(), static_cast<mode_t>(my_umask_dir)) != 0) return false;
  if (!write(engine::kMountMarker, "")) return false;
  if (!mount->options().empty() && !write("db.opt", mount->options())) return false;
  for (const catalog::TablePtr &table : engine::Mount::list(mount))
    if (!table->par.empty() && !write(table->name + ".par", table->par)) return false;
  return true;
}

// Removes the directory of a mounted schema. If the directory has other files, they and the directory stay,
// as an ordinary schema.
void remove_files(const fs::path &directory) {
  std::error_code ignored;
  if (!fs::remove(directory / engine::kMountMarker, ignored)) return;
  const std::vector<fs::path> files = entries_of(directory);
  const auto is_ours = [](const fs::path &file) {
    return file.filename() == "db.opt" || file.extension() == ".par";
  };
  if (!std::all_of(files.begin(), files.end(), is_ours)) return;
  for (const fs::path &file : files) fs::remove(file, ignored);
  fs::remove(directory, ignored);
}

// Checks that the user has a privilege on the schema. Privileges on single tables of it are not enough.
// Errors: kInvalid, which the server has reported.
Status check_privilege(THD *thd, privilege_t privilege, const Schema &schema) {
  if (check_access(thd, privilege, schema.sql_name.c_str(), nullptr, nullptr, true, false))
    return Status(Code::kInvalid, "");
  return Status::Ok();
}

// Locks the name of the schema until the statement ends, so that CREATE and DROP DATABASE wait. Errors:
// kInvalid; kInterrupted, which the server has reported.
Status lock_schema(THD *thd, const Schema &schema) {
  if (thd->locked_tables_mode != LTM_NONE)
    return Status(Code::kInvalid, "not under LOCK TABLES: UNLOCK TABLES first");
  return handler::lock_schema_until_end(thd, schema.sql_name) ? Status(Code::kInterrupted, "") : Status::Ok();
}

// Refuses a statement that reads a table of the schema itself, because it would wait for its own lock.
Status refuse_own_use(const THD *thd, const Schema &schema) {
  for (const TABLE *table = thd->open_tables; table != nullptr; table = table->next)
    if (schema.sql_name == std::string_view(table->s->db.str, table->s->db.length))
      return Status(Code::kInvalid, "this statement reads a table of '" + schema.sql_name + "'");
  return Status::Ok();
}

// Closes the table if this connection has opened it by HANDLER. The lock of close_table() makes other
// connections close it.
void close_own_handlers(THD *thd, const Schema &schema, const std::string &name) {
  const LEX_CSTRING database{schema.sql_name.data(), schema.sql_name.size()}, table{name.data(), name.size()};
  TABLE_LIST one;
  one.init_one_table(&database, &table, nullptr, TL_READ);
  mysql_ha_rm_tables(thd, &one);
}

bool is_known(const catalog::Catalog &catalog, const std::string &database) {
  const std::vector<catalog::DatabaseDef> known = catalog.databases();
  const auto is_it = [&](const catalog::DatabaseDef &each) { return each.name == database; };
  return std::any_of(known.begin(), known.end(), is_it) || !catalog.list(database).empty();
}

// Waits until no statement and no transaction uses the table, and closes the table in all connections.
Status close_table(THD *thd, const Schema &schema, const std::string &table) {
  const std::string name = handler::sql_name(table);
  close_own_handlers(thd, schema, name);
  MDL_request request;
  MDL_REQUEST_INIT(&request, MDL_key::TABLE, schema.sql_name.c_str(), name.c_str(), MDL_EXCLUSIVE,
                   MDL_STATEMENT);
  if (thd->mdl_context.acquire_lock(&request, thd->variables.lock_wait_timeout))
    return Status(Code::kInterrupted, "");
  tdc_remove_table(thd, schema.sql_name.c_str(), name.c_str());
  return Status::Ok();
}

Status mount(const std::vector<std::string> &arguments, std::string *what) {
  THD *thd = current_thd;
  Schema source, schema;
  ATOLL_RETURN_IF_ERROR(parse_schema(arguments[0], &source));
  ATOLL_RETURN_IF_ERROR(parse_schema(arguments[1], &schema));
  // A user without the right to SELECT from the schema must not read its past either. And a mount makes a
  // schema that users with rights on that name can read, as CREATE DATABASE does.
  ATOLL_RETURN_IF_ERROR(check_privilege(thd, SELECT_ACL, source));
  ATOLL_RETURN_IF_ERROR(check_privilege(thd, CREATE_ACL, schema));
  ATOLL_RETURN_IF_ERROR(lock_schema(thd, schema));
  // For a name that is too long for a file, exists() returns false with an error, and a later step fails.
  std::error_code unknown;
  if (fs::exists(schema.directory, unknown))
    return Status(Code::kInvalid, "there is a schema '" + schema.sql_name + "' already");
  engine::Engine *running = engine::running();
  if (is_known(*running->catalog(), schema.directory_name))
    return Status(Code::kInvalid,
                  "the bucket has a schema '" + schema.sql_name + "', whose directory is missing");
  // The mount must show everything that was committed before. With atoll_durability=local, too, all of that
  // must be in the bucket first.
  ATOLL_RETURN_IF_ERROR(running->gate().publish_all());
  std::shared_ptr<const engine::Mount> mount;
  const auto check = [running](const catalog::MaskingRecord &then) { return check_masked(*running, then); };
  ATOLL_RETURN_IF_ERROR(running->mounts()
                            ->open(source.directory_name, schema.directory_name, arguments[2], check, &mount)
                            .with("mounting '" + source.sql_name + "' as in '" + arguments[2] + "'"));
  if (!write_files(schema, mount)) {
    const int error = errno;
    remove_files(schema.directory);
    return Status(Code::kNoSpace, "cannot write to " + schema.directory.string() + ": " + strerror(error));
  }
  running->mounts()->add(schema.directory_name, mount);
  *what = "schema '" + schema.sql_name + "' shows '" + source.sql_name + "' as after " +
          (mount->commit_us() == 0 ? "its creation" : "the commit of " + utc_text(mount->commit_us())) +
          ", until ATOLL_UNMOUNT('" + schema.sql_name + "') or the end of the server";
  return Status::Ok();
}

Status unmount(const std::vector<std::string> &arguments, std::string *what) {
  THD *thd = current_thd;
  Schema schema;
  ATOLL_RETURN_IF_ERROR(parse_schema(arguments[0], &schema));
  ATOLL_RETURN_IF_ERROR(check_privilege(thd, DROP_ACL, schema));  // as for DROP DATABASE, which does the same
  ATOLL_RETURN_IF_ERROR(lock_schema(thd, schema));
  engine::Mounts *mounts = engine::running()->mounts();
  auto mount = mounts->find(schema.directory_name);
  if (!mount) return Status(Code::kNotFound, "'" + schema.sql_name + "' is not mounted");
  ATOLL_RETURN_IF_ERROR(refuse_own_use(thd, schema));
  for (const catalog::TablePtr &table : engine::Mount::list(mount))
    if (!handler::is_partition(table->name)) ATOLL_RETURN_IF_ERROR(close_table(thd, schema, table->name));
  mount.reset();  // so that remove() drops the last reference, which removes the directory of the mount
  mounts->remove(schema.directory_name);
  remove_files(schema.directory);
  *what = "schema '" + schema.sql_name + "' is unmounted";
  return Status::Ok();
}

}  // namespace

void remove_former_mounts(engine::Mounts *mounts, const std::string &data_dir) {
  for (const std::string &name : mounts->leftovers()) {
    remove_files(fs::path(data_dir) / name);
    log_info("the schema " + name + ", mounted before the restart, is not mounted any more");
  }
  mounts->forget_leftovers();
}

Create_func *mount_function() {
  static const SqlAction action{"atoll_mount",
                                3,
                                1,
                                ActionPrivilege::kReload,
                                "ATOLL_MOUNT('schema', 'as', 'snapshot or moment'): none of them is NULL",
                                mount};
  return action_function(&action);
}

Create_func *unmount_function() {
  static const SqlAction action{
      "atoll_unmount", 1, 0, ActionPrivilege::kReload, "ATOLL_UNMOUNT() needs the name of a schema, not NULL",
      unmount};
  return action_function(&action);
}

}  // namespace atoll::plugin
