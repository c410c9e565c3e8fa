// See table_steps.h.
#include "plugin/tables/table_steps.h"

#include <sql_db.h>
#include <sql_parse.h>

#include <filesystem>

#include "base/file.h"
#include "base/log.h"
#include "engine/running.h"
#include "handler/ddl/table_name.h"
#include "plugin/snapshots/sql_names.h"
#include "plugin/snapshots/table_text.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;

constexpr uint kPrivilegeNamesMax = 128;  // as in the server (check_grant() in sql/sql_acl.cc)

// Returns the name in the type that the server's functions take.
LEX_CSTRING lex(const std::string &name) { return {name.data(), name.size()}; }

}  // namespace

Status reported_error() { return Status(Code::kInvalid, ""); }

TableNames table_names(const std::string &database, const std::string &table) {
  return {database, table, handler::file_name_of(database.c_str()), handler::file_name_of(table.c_str())};
}

Status parse_table_names(THD *thd, const std::string &argument, TableNames *names) {
  TableText text;
  ATOLL_RETURN_IF_ERROR(parse_table_text(argument, &text));
  if (text.database.empty() && thd->db.str == nullptr)
    return Status(Code::kInvalid, "no schema is in use: write 'schema.table' for '" + argument + "'");
  if (text.database.empty()) text.database.assign(thd->db.str, thd->db.length);
  ATOLL_RETURN_IF_ERROR(read_schema_name(&text.database));
  ATOLL_RETURN_IF_ERROR(read_table_name(&text.table));
  *names = table_names(text.database, text.table);
  return Status::Ok();
}

Status check_is_there(const std::string &schema) {
  return check_db_dir_existence(schema.c_str())
             ? Status(Code::kInvalid, "there is no schema '" + schema + "'")
             : Status::Ok();
}

Status refuse_taken(THD *thd, const TableNames &names) {
  const LEX_CSTRING database = lex(names.database), table = lex(names.table);
  if (!ha_table_exists(thd, &database, &table)) return Status::Ok();
  return Status(Code::kInvalid, "there is a table " + names.shown() + " already");
}

Status may_change_tables(THD *thd) {
  if (thd->locked_tables_mode != LTM_NONE)
    return Status(Code::kInvalid, "not under LOCK TABLES: UNLOCK TABLES first");
  if (thd->in_active_multi_stmt_transaction())
    return Status(Code::kInvalid, "not in a transaction: COMMIT first");
  if (thd->has_read_only_protection()) return reported_error();
  if (opt_readonly && !(thd->security_ctx->master_access & PRIV_IGNORE_READ_ONLY))
    return Status(Code::kReadOnly, "the server runs with --read-only");
  return Status::Ok();
}

Status check_privileges(THD *thd, const TableNames &names, privilege_t privileges) {
  const LEX_CSTRING database = lex(names.database), table = lex(names.table);
  TABLE_LIST one;
  one.init_one_table(&database, &table, nullptr, TL_READ);
  if (check_one_table_access(thd, privileges, &one)) return reported_error();
  const privilege_t missing = privileges & ~one.grant.privilege;
  if (missing == NO_ACL) return Status::Ok();
  char command[kPrivilegeNamesMax];
  get_privilege_desc(command, sizeof(command), missing);
  const Security_context *user = thd->security_ctx;
  my_error(ER_TABLEACCESS_DENIED_ERROR, MYF(0), command, user->priv_user, user->host_or_ip,
           names.database.c_str(), names.table.c_str());
  return reported_error();
}

Status lock_name(THD *thd, MDL_key::enum_mdl_namespace kind, const std::string &database,
                 const std::string &table, enum_mdl_type type) {
  MDL_request request;
  MDL_REQUEST_INIT(&request, kind, database.c_str(), table.c_str(), type, MDL_STATEMENT);
  return thd->mdl_context.acquire_lock(&request, thd->variables.lock_wait_timeout) ? reported_error()
                                                                                   : Status::Ok();
}

Status lock_name_of_new(THD *thd, const TableNames &names) {
  ATOLL_RETURN_IF_ERROR(lock_name(thd, MDL_key::SCHEMA, names.database, "", MDL_INTENTION_EXCLUSIVE));
  return lock_name(thd, MDL_key::TABLE, names.database, names.table, MDL_EXCLUSIVE);
}

Status flush_table(const TableNames &names) {
  engine::Engine *running = engine::running();
  for (const catalog::TablePtr &table : running->catalog()->with_partitions(names.directory, names.file)) {
    if (!table->own_family) continue;
    lsm::Family *family = running->database()->find_family(table->family_id);
    if (family != nullptr) ATOLL_RETURN_IF_ERROR(running->database()->flush(family));
  }
  return Status::Ok();
}

void write_definition_files(const TableNames &names) {
  const catalog::TablePtr table = engine::running()->catalog()->find(names.directory, names.file);
  if (!table) return;
  const fs::path path = fs::path(mysql_real_data_home) / names.directory / names.file;
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

}  // namespace atoll::plugin
