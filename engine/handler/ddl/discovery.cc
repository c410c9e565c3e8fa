// Discovery: a server with an empty data directory finds every table in the catalog.
#include "handler/ha_atoll.h"

#include "base/file.h"
#include "catalog/description/frm_version.h"
#include "engine/running.h"
#include "handler/server/callback.h"
#include "handler/server/compat/names.h"
#include "handler/server/error_map.h"
#include "handler/handlerton.h"
#include "handler/ddl/definition.h"
#include "handler/ddl/table_name.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace catalog = atoll::catalog;

namespace {

// While no engine runs, because it waits for the bucket or for another server, or because it did not start,
// nobody knows whether a table that has no .frm file is an ATOLL table. The error must not be "table doesn't
// exist", because applications create missing tables.
int unknown_while_not_running(const TABLE_SHARE *share) {
  if (strcmp(share->db.str, "mysql") == 0) return HA_ERR_NO_SUCH_TABLE;
  // 11.8 asks for the table of a DROP, and takes every other error for a table that it can drop.
  if (current_thd->lex->sql_command == SQLCOM_DROP_TABLE) return HA_ERR_NO_SUCH_TABLE;
  const Code why = atoll::engine::why_not_running().code();
  const bool is_tried_again = why == Code::kUnavailable || why == Code::kNoMemory;
  my_printf_error(ER_GET_ERRMSG, "ATOLL: whether the table %s.%s exists is not known: %s%s", MYF(0),
                  share->db.str, share->table_name.str, atoll::engine::ready().message(),
                  is_tried_again ? "" : "; the error log and Atoll_last_error say more");
  return HA_ERR_GENERIC;  // the server adds no error of its own
}

int discover_table(handlerton *, THD *thd, TABLE_SHARE *share) {
  if (atoll::engine::running() == nullptr) return unknown_while_not_running(share);
  const ah::TableName name = ah::parse_table_name(share->normalized_path.str);
  const catalog::TablePtr def = ah::find_definition(name).table;
  if (!def || def->frm.empty()) return HA_ERR_NO_SUCH_TABLE;
  if (Status status = ah::refuse_newer_series(catalog::server_version_in(def->frm), name); !status.ok()) {
    my_printf_error(ER_GET_ERRMSG, "ATOLL: %s", MYF(0), status.message());
    return HA_ERR_GENERIC;  // the server adds no error of its own
  }
  // The .frm file of a mounted table is not written, because the file would outlive the mount.
  const bool is_kept = !ah::is_mounted(name.database);
  // The server deletes the .par file before it asks for a definition that has changed.
  const std::string par_file = std::string(share->normalized_path.str) + ".par";
  if (!is_kept && !def->par.empty() && atoll::content_of(par_file) != def->par)
    (void)atoll::write_content(par_file, def->par);
  const int error = share->init_from_binary_frm_image(
      thd, is_kept, reinterpret_cast<const uchar *>(def->frm.data()), def->frm.size(),
      def->par.empty() ? nullptr : reinterpret_cast<const uchar *>(def->par.data()), def->par.size());
  return my_errno = error;
}

int discover_table_names(handlerton *, ah::DiscoveredSchema *db, MY_DIR *,
                         handlerton::discovered_list *result) {
  if (atoll::engine::running() == nullptr) return 0;
  for (const catalog::TablePtr &def : ah::definitions_in(ah::file_name_of(db->str)))
    if (!def->frm.empty() && !ah::is_internal(def->name) && !ah::is_partition(def->name))
      if (result->add_file(def->name.c_str())) return 1;
  return 0;
}

int discover_table_existence(handlerton *, const char *db, const char *table) {
  if (atoll::engine::running() == nullptr) return 0;
  const catalog::TablePtr def = ah::find_definition({ah::file_name_of(db), ah::file_name_of(table)}).table;
  return def && !def->frm.empty();
}

int notify_tabledef_changed(handlerton *, LEX_CSTRING *db, LEX_CSTRING *table, LEX_CUSTRING *frm,
                            LEX_CUSTRING *, handler *) {
  if (Status status = atoll::engine::ready(); !status.ok()) return ah::to_ha_error(status.code());
  // `db` and `table` are encoded as in file names. For a partitioned table the server calls this for each
  // partition.
  ah::announce_definition(std::string(db->str, db->length), std::string(table->str, table->length),
                          std::string(reinterpret_cast<const char *>(frm->str), frm->length));
  return 0;
}

// After a crash in ALTER, the server's DDL log asks whether the engine has the new definition. `version` is a
// unique number that the new .frm contains. Returns 0 if the catalog has that .frm.
int check_version(handlerton *, const char *path, const LEX_CUSTRING *version, ulonglong) {
  if (!atoll::engine::ready().ok()) return 1;
  const ah::TableName name = ah::parse_table_name(path);
  const catalog::TablePtr def = atoll::engine::running()->catalog()->find(name.database, name.table);
  const std::string_view number(reinterpret_cast<const char *>(version->str), version->length);
  return def && def->frm.find(number) != std::string::npos ? 0 : 1;
}

// Stores the catalog entry of a partitioned table as a whole, which has a .frm and a .par but no rows. At
// CREATE the .frm is not written yet; create() of the first partition adds it (ah::note_partitioned_frm). At
// RENAME the files may still have the former name, so both are taken over from `before`, the entry under that
// name.
Status store_partitioned(const char *path, const catalog::TablePtr &before) {
  const ah::TableName name = ah::parse_table_name(path);
  catalog::Catalog *all = atoll::engine::running()->catalog();
  const catalog::TablePtr existing = all->find(name.database, name.table);
  catalog::TableDef def;
  if (existing) def = *existing;
  if (before) {
    def.frm = before->frm;
    def.par = before->par;
  }
  def.database = name.database;
  def.name = name.table;
  if (!existing) def.former_name = before && ah::is_internal(name.table) ? before->name : std::string();
  if (std::string frm = atoll::content_of(std::string(path) + ".frm"); !frm.empty()) def.frm = std::move(frm);
  if (std::string par = atoll::content_of(std::string(path) + ".par"); !par.empty()) def.par = std::move(par);
  return all->put_partitioned(std::move(def));
}

// Renames the entry of the whole table in one write, so that no crash leaves partitions without that entry.
// If the new name has an entry already, only drops the former one.
Status rename_whole(const ah::TableName &from, const ah::TableName &to) {
  catalog::Catalog *all = atoll::engine::running()->catalog();
  return all->find(to.database, to.table) ? all->drop(from.database, from.table)
                                          : all->rename(from.database, from.table, to.database, to.table);
}

// While CONVERT PARTITION runs, the server gives the old definition a name with #sql-backup. Later the server
// removes that file without telling the engine, so this function drops the catalog entry of that name. The
// partitions have kept their names.
Status drop_backup_of(const ah::TableName &name) {
  catalog::Catalog *all = atoll::engine::running()->catalog();
  if (ah::is_internal(name.table)) return Status::Ok();
  for (const catalog::TablePtr &def : all->list(name.database)) {
    if (!def->logical_only || !ah::is_internal(def->name) || def->former_name != name.table) continue;
    if (all->with_partitions(name.database, def->name).size() == 1)
      ATOLL_RETURN_IF_ERROR(all->drop(name.database, def->name));
  }
  return Status::Ok();
}

int create_partitioning_metadata(const char *path, const char *old_path, chf_create_flags action) {
  if (Status status = atoll::engine::ready(); !status.ok()) return ah::report(current_thd, status);
  for (const char *each : {path, old_path}) {
    if (each == nullptr || !ah::is_mounted(ah::parse_table_name(each).database)) continue;
    return ah::is_end_of_mounts(current_thd) ? 0 : ah::report(current_thd, ah::past_is_read_only());
  }
  catalog::Catalog *all = atoll::engine::running()->catalog();
  if (action == CHF_INDEX_FLAG) return 0;
  // An in-place ALTER makes .frm and .par files for its new definition and later removes them without telling
  // the engine, so they get no catalog entry. An ALTER that copies creates partitions, and create() of the
  // first one adds the entry (note_partitioned_frm).
  if (action == CHF_CREATE_FLAG && ah::is_internal(ah::parse_table_name(path).table)) return 0;
  catalog::TablePtr before;
  if (action == CHF_DELETE_FLAG || action == CHF_RENAME_FLAG) {
    const ah::TableName old =
        ah::parse_table_name(action == CHF_DELETE_FLAG && path != nullptr ? path : old_path);
    before = all->find(old.database, old.table);
    if (before && before->logical_only) {
      const Status status = action == CHF_RENAME_FLAG ? rename_whole(old, ah::parse_table_name(path))
                                                      : all->drop(old.database, old.table);
      if (!status.ok()) return ah::report(current_thd, status);
    }
    if (action == CHF_DELETE_FLAG) return 0;
  }
  Status status = store_partitioned(path, before);
  if (status.ok()) status = drop_backup_of(ah::parse_table_name(path));
  return status.ok() ? 0 : ah::report(current_thd, status);
}

}  // namespace

namespace atoll::handler {

Status note_partitioned_frm(const char *partition_path, std::string frm) {
  catalog::Catalog *all = engine::running()->catalog();
  const std::string path(whole_table(partition_path));
  const TableName name = parse_table_name(path.c_str());
  if (is_internal(name.table) && !all->find(name.database, name.table))
    ATOLL_RETURN_IF_ERROR(store_partitioned(path.c_str(), nullptr));
  const catalog::TablePtr logical = all->find(name.database, name.table);
  if (!logical || !logical->logical_only || logical->frm == frm) return Status::Ok();
  catalog::TableDef def = *logical;
  def.frm = std::move(frm);
  return all->update(def);
}

void fill_discovery_callbacks(handlerton *hton) {
  hton->discover_table = guarded_function<discover_table, fails_by_code>;
  hton->discover_table_names = guarded_function<discover_table_names, fails_by<1>>;
  hton->discover_table_existence = guarded_function<discover_table_existence, fails_by<0>>;
  hton->notify_tabledef_changed = guarded_function<notify_tabledef_changed, fails_by_code>;
  hton->check_version = guarded_function<check_version, is_logged_by<1>>;
  hton->create_partitioning_metadata = guarded_function<::create_partitioning_metadata, fails_by_code>;
}

}  // namespace atoll::handler
