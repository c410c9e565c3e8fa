// ha_atoll: CREATE, DROP, RENAME, TRUNCATE.
//
// The catalog's record decides whether a table exists. The server does not write .frm files for an engine
// that supports discovery, so create() stores the content of the .frm file (the .frm image) in the catalog
// and also writes the file.
#include "handler/ha_atoll.h"

#include <rocksdb/write_batch.h>

#include <filesystem>

#include "base/file.h"
#include "base/log.h"
#include "catalog/record.h"
#include "engine/running.h"
#include "handler/alter/alter_definition.h"
#include "handler/server/callback.h"
#include "handler/server/description.h"
#include "handler/server/error_map.h"
#include "handler/server/guarded_handler.h"
#include "handler/handlerton.h"
#include "handler/ddl/definition.h"
#include "handler/ddl/outgrown.h"
#include "handler/ddl/prepared_writers.h"
#include "handler/ddl/refusals.h"
#include "handler/ddl/table_name.h"
#include "handler/ddl/table_options.h"
#include "handler/session/temporary_rows.h"
#include "handler/ddl/temporary_tables.h"
#include "handler/foreign/definitions.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace catalog = atoll::catalog;

namespace {

// Warns that DATA DIRECTORY and INDEX DIRECTORY have no effect, because tables live in the bucket.
void warn_of_directories(THD *thd, const HA_CREATE_INFO *info) {
  if (!ah::defines_table(thd)) return;
  const auto warn = [thd](const char *option) {
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, WARN_OPTION_IGNORED,
                        ER_THD(thd, WARN_OPTION_IGNORED), option);
  };
  if (info->data_file_name != nullptr) warn("DATA DIRECTORY");
  if (info->index_file_name != nullptr) warn("INDEX DIRECTORY");
}

// Describes the columns and keys of a new table, and gives ids to its columns and ordinals to its indexes.
void describe(const TABLE *form, catalog::TableDef *def) {
  def->description = ah::describe(form);
  const TABLE_SHARE *share = form->s;
  def->hidden_primary_key = share->primary_key == MAX_KEY;
  for (uint i = 0; i < share->fields; i++)
    if (share->field[i]->stored_in_db()) def->column_ids.push_back(def->next_column_id++);
  ah::define_indexes(form, def);
  def->versions.push_back({1, {}});
}

// Stores in `def` how the current schema version lays out its columns. After an instant ALTER, that is needed
// to read rows of this version.
Status complete_version(const TABLE *form, catalog::TableDef *def) {
  std::shared_ptr<const ah::Layout> layout;
  ATOLL_RETURN_IF_ERROR(
      ah::build_layout(form, std::make_shared<const catalog::TableDef>(*def), nullptr, &layout));
  def->versions.back().columns = ah::Layout::past_columns(layout->row());
  return Status::Ok();
}

Status drop_temporary(const catalog::TablePtr &def) {
  ah::Session *session = ah::Session::of(current_thd, false);
  return session == nullptr ? ah::remove_temporary_rows(*def) : session->drop_temporary(def);
}

// Renames a partitioned table as a whole. The server asks for this, and not for the rename of each partition,
// if the .frm file of the table is gone and the table has not been opened since.
Status rename_with_partitions(const ah::TableName &source, const ah::TableName &target, const char *from,
                              const char *to) {
  ATOLL_RETURN_IF_ERROR(atoll::engine::running()->catalog()->rename_partitioned(
      source.database, source.table, target.database, target.table));
  // In a new data directory the .par file does not exist yet, so an error is ignored. Discovery writes the
  // file later.
  (void)rename((std::string(from) + ".par").c_str(), (std::string(to) + ".par").c_str());
  return Status::Ok();
}

// Whether the server drops the partition because it drops the whole table. Then all partitions are dropped in
// one write. The server itself removes the .par file, which lists the partitions, and then drops them one by
// one; after a crash in between, that DROP could not be finished and could not be undone.
bool is_dropped_with_its_table(THD *thd, const ah::TableName &name) {
  if (!ah::is_partition(name.table)) return false;
  if (ah::is_internal(name.table)) return true;
  const enum_sql_command command = thd->lex->sql_command;
  return command == SQLCOM_DROP_TABLE || command == SQLCOM_DROP_DB || command == SQLCOM_CREATE_TABLE;
}

// Called when EXCHANGE PARTITION has made a partition a table. A partition has no .frm in the catalog, so the
// new table takes the .frm file at `path`, which stays there while the rows are exchanged.
Status keep_definition_of_exchanged(const ah::TableName &name, const char *path) {
  catalog::Catalog *all = atoll::engine::running()->catalog();
  const catalog::TablePtr def = all->find(name.database, name.table);
  if (!def) return Status::Ok();
  catalog::TableDef changed = *def;
  changed.frm = atoll::content_of(std::string(path) + reg_ext);
  return changed.frm.empty() ? Status::Ok() : all->update(changed);
}

// Writes the .frm file at once. Discovery would write it only when the table is opened for the first time.
// Until then, statements that read the file to see what a name stands for (DROP SEQUENCE) would not find the
// table.
Status write_frm(TABLE_SHARE *share, const ah::TableName &name) {
  if (!share->frm_image || ah::is_internal(name.table) || ah::is_partition(name.table)) return Status::Ok();
  if (!share->write_frm_image(share->frm_image->str, share->frm_image->length)) return Status::Ok();
  (void)atoll::engine::running()->catalog()->drop(name.database, name.table);
  return Status(Code::kNoSpace, "its .frm file cannot be written; free space in the data directory");
}

// Drops the catalog entry of a new partitioned table whose first partition could not be created. With an
// entry but no partitions, the server would look for the table for ever.
void drop_without_partitions(const ah::TableName &partition) {
  catalog::Catalog *all = atoll::engine::running()->catalog();
  const std::string whole(catalog::whole_table(partition.table));
  const std::vector<catalog::TablePtr> found = all->with_partitions(partition.database, whole);
  if (found.size() == 1 && found[0]->logical_only) (void)all->drop(partition.database, whole);
}

// Does what CREATE needs after the table is in the catalog: stores the first AUTO_INCREMENT value, waits for
// the bucket, writes the .frm file.
Status finish_create(TABLE_SHARE *share, const ah::TableName &name, uint32_t table_id,
                     uint64_t auto_increment) {
  if (auto_increment > 1)
    ATOLL_RETURN_IF_ERROR(atoll::engine::running()->catalog()->set_auto_increment(table_id, auto_increment));
  ATOLL_RETURN_IF_ERROR(atoll::engine::running()->gate().after_ddl());
  return write_frm(share, name);
}

}  // namespace

int ha_atoll::create(const char *name, TABLE *form, HA_CREATE_INFO *info) {
  if (Status status = atoll::engine::ready(); !status.ok()) return fail(status);
  THD *thd = ha_thd();
  if (Status status = ah::refuse_unsupported(form); !status.ok()) {
    my_printf_error(ER_ILLEGAL_HA, "ATOLL: table %s: %s", MYF(0), ah::shown_table(thd, form->s).c_str(),
                    status.message());
    return HA_ERR_WRONG_COMMAND;  // the message that the server adds for this code fits ours
  }
  warn_of_directories(thd, info);
  catalog::TableDef def;
  bool explicit_compression = false;
  Status status = ah::refuse_encryption(info);
  if (status.ok())
    status = ah::compression_of(form->s->option_struct, &def.compression, &explicit_compression);
  if (!status.ok()) {
    my_printf_error(ER_ILLEGAL_HA_CREATE_OPTION, "ATOLL: table %s: %s", MYF(0),
                    ah::shown_table(thd, form->s).c_str(), status.message());
    return HA_WRONG_CREATE_OPTION;
  }
  def.compression_explicit = explicit_compression;
  describe(form, &def);
  status = complete_version(form, &def);
  if (!status.ok()) return fail(status);
  if (info->tmp_table()) {
    if (int error = ah::define_foreign_keys(thd, form, info, true, &def)) return error;
    ah::TemporaryTables::add(name, std::move(def));
    ah::TemporaryTables::set_auto_increment(name, info->auto_increment_value);
    return 0;
  }

  status = atoll::engine::may_write();
  const ah::TableName parsed = ah::parse_table_name(name);
  if (status.ok()) status = ah::refuse_mounted(parsed.database);
  if (!status.ok()) return fail(status);
  def.database = parsed.database;
  def.name = parsed.table;
  if (int error = ah::define_foreign_keys(thd, form, info, false, &def)) {
    if (error == HA_ERR_DROP_INDEX_FK) shown_error_ = error;  // raised with the name of the index
    return error;
  }
  std::string frm;
  if (form->s->frm_image)
    frm.assign(reinterpret_cast<const char *>(form->s->frm_image->str), form->s->frm_image->length);
  atoll::engine::Engine *running = atoll::engine::running();
  const bool is_part = ah::is_partition(parsed.table);
  status = atoll::guarded([&]() -> Status {
    ATOLL_RETURN_IF_ERROR(running->catalog()->keep_database(parsed.database));
    if (is_part)
      ATOLL_RETURN_IF_ERROR(ah::note_partitioned_frm(name, std::move(frm)));
    else
      def.frm = std::move(frm);
    return running->catalog()->create(&def, explicit_compression || ah::will_outgrow(*form));
  });
  if (!status.ok() && is_part) drop_without_partitions(parsed);
  if (status.code() == Code::kDuplicate) return HA_ERR_TABLE_EXIST;
  if (!status.ok()) return fail(status);
  status = atoll::guarded([&] { return finish_create(form->s, parsed, def.id, info->auto_increment_value); });
  if (status.code() == Code::kNoMemory) (void)running->catalog()->drop(parsed.database, parsed.table);
  return status.ok() ? 0 : fail(status);
}

namespace {

// Before the server drops the first partition of a table, it removes the .par file. When the partition stays,
// because the drop is refused, the table needs that file, and the destructor writes it again.
class ParFileKept {
 public:
  ParFileKept(const char *path, const ah::TableName &partition) : path_(path), partition_(partition) {}
  ~ParFileKept() {
    if (catalog::is_partition(partition_.table)) (void)atoll::guarded([&] { return put_back(); });
  }
  ParFileKept(const ParFileKept &) = delete;
  ParFileKept &operator=(const ParFileKept &) = delete;

 private:
  Status put_back() const {
    const catalog::Catalog *all = atoll::engine::running()->catalog();
    const std::string whole(catalog::whole_table(partition_.table));
    const catalog::TablePtr def = all->find(partition_.database, whole);
    const std::string file = path_.substr(0, path_.size() - partition_.table.size() + whole.size()) + ".par";
    if (!def || def->par.empty() || !all->find(partition_.database, partition_.table) ||
        access(file.c_str(), F_OK) == 0)
      return Status::Ok();
    if (!atoll::write_content(file, def->par)) atoll::log_warning("cannot write " + file);
    return Status::Ok();
  }

  const std::string path_;
  const ah::TableName &partition_;
};

}  // namespace

int ha_atoll::delete_table(const char *name) {
  if (catalog::TablePtr temporary = ah::TemporaryTables::remove(name)) {
    const Status status = drop_temporary(temporary);
    return status.ok() ? 0 : fail(status);
  }
  if (Status status = atoll::engine::ready(); !status.ok()) return fail(status);
  const ah::TableName parsed = ah::parse_table_name(name);
  if (ah::is_mounted(parsed.database))
    return ah::is_end_of_mounts(ha_thd()) ? 0 : fail(ah::past_is_read_only());
  const ParFileKept kept(name, parsed);
  if (Status status = atoll::engine::may_write(); !status.ok()) return fail(status);
  catalog::Catalog *all = atoll::engine::running()->catalog();
  const catalog::TablePtr def = all->find(parsed.database, parsed.table);
  if (def && ah::is_still_referenced(ha_thd(), parsed)) return HA_ERR_ROW_IS_REFERENCED;
  if (def && ah::refuse_for_prepared_writers(*def)) return HA_ERR_LOCK_WAIT_TIMEOUT;
  const bool is_whole_dropped = is_dropped_with_its_table(ha_thd(), parsed);
  Status status = is_whole_dropped
                      ? all->drop_partitioned(parsed.database, catalog::whole_table(parsed.table))
                      : all->drop(parsed.database, parsed.table);
  // For a partition, kNotFound means that the call for the first partition has dropped all partitions.
  if (status.code() == Code::kNotFound) return is_whole_dropped ? 0 : HA_ERR_NO_SUCH_TABLE;
  if (status.ok()) status = atoll::engine::running()->gate().after_ddl();
  return status.ok() ? 0 : fail(status);
}

int ha_atoll::rename_table(const char *from, const char *to) {
  if (ah::TemporaryTables::find(from)) {
    ah::TemporaryTables::rename(from, to);
    return 0;
  }
  if (Status status = atoll::engine::ready(); !status.ok()) return fail(status);
  const ah::TableName source = ah::parse_table_name(from);
  const ah::TableName target = ah::parse_table_name(to);
  catalog::Catalog *all = atoll::engine::running()->catalog();
  const catalog::TablePtr before = all->find(source.database, source.table);
  if (!before && ah::is_internal(source.table) && !ah::is_partition(source.table))
    return ah::rename_for_other_engine(ha_thd(), from, to);
  if (Status status = atoll::engine::may_write(); !status.ok()) return fail(status);
  for (const ah::TableName *each : {&source, &target})
    if (Status status = ah::refuse_mounted(each->database); !status.ok()) return fail(status);
  if (Status status = all->keep_database(target.database); !status.ok()) return fail(status);
  if (before && !ah::is_internal(source.table) && !ah::is_internal(target.table) &&
      !ah::fits_children(*before, target.database, target.table))
    return HA_ERR_CANNOT_ADD_FOREIGN;
  Status status = before && before->logical_only
                      ? rename_with_partitions(source, target, from, to)
                      : all->rename(source.database, source.table, target.database, target.table,
                                    ah::renamed_references(ha_thd(), source, target));
  // After a crash in RENAME, Catalog::open() gives the partitions their former names back. The server's DDL
  // log then tries the same rename, which is done already.
  if (status.code() == Code::kNotFound && ah::is_partition(source.table) && ah::is_partition(target.table) &&
      all->find(target.database, target.table))
    status = Status::Ok();
  if (status.code() == Code::kNotFound) return HA_ERR_NO_SUCH_TABLE;
  if (status.code() == Code::kDuplicate) return HA_ERR_TABLE_EXIST;
  if (status.code() == Code::kInvalid) {  // a constraint of that name exists; InnoDB has the same error
    my_error(ER_TABLE_EXISTS_ERROR, MYF(0), ah::sql_name(target.table).c_str());
    return fail(status);
  }
  if (status.ok() && ah::is_partition(source.table) && !ah::is_partition(target.table))
    status = keep_definition_of_exchanged(target, to);
  if (status.ok()) status = atoll::engine::running()->gate().after_ddl();
  return status.ok() ? 0 : fail(status);
}

int ha_atoll::truncate() {
  if (is_temporary()) {
    const Status status = ah::remove_temporary_rows(layout()->def());
    share_->next_auto_increment = 1;
    share_->rows = 0;
    return status.ok() ? 0 : fail(status);
  }
  if (int error = check_writable()) return error;
  if (ah::refuse_for_prepared_writers(layout()->def())) return HA_ERR_LOCK_WAIT_TIMEOUT;
  atoll::engine::Engine *running = atoll::engine::running();
  catalog::TablePtr def;
  Status status = running->catalog()->truncate(layout()->def().database, layout()->def().name, &def);
  if (!status.ok()) return fail(status);
  reader_.close();
  open_table_.set_layout(layout()->moved(def, running->database()->find_family(def->family_id)));
  share_->set_layout(layout());
  share_->next_auto_increment = 1;
  share_->restart_hidden_ids();
  share_->rows = 0;
  ah::note_update_times({{def->id, 0}});
  status = atoll::engine::running()->gate().after_ddl();
  return status.ok() ? 0 : fail(status);
}

// ---- Dropping tables and databases by their paths, filling the handlerton --------------------------

namespace {

// Whether a .frm image defines a sequence. Byte 39 of the image holds the SEQUENCE clause in bits 4 and 5.
// Source: sql/unireg.cc, build_frm_image().
bool is_sequence_image(const std::string &frm) {
  constexpr size_t kChoiceByte = 39;
  return frm.size() > kChoiceByte && ((static_cast<uint8_t>(frm[kChoiceByte]) >> 4) & 3) == HA_CHOICE_YES;
}

// Whether a prepared transaction has changed the table or, of a partitioned table, any partition. For the
// latter only the first partition is asked about, because refuse_for_prepared_writers() looks at all
// partitions of its table.
bool any_has_prepared_writers(const ah::TableName &name, const catalog::TableDef &def) {
  if (!def.logical_only) return ah::refuse_for_prepared_writers(def);
  const auto all = atoll::engine::running()->catalog()->with_partitions(name.database, name.table);
  return all.size() > 1 && ah::refuse_for_prepared_writers(*all[1]);
}

// Drops a table of the catalog, or a whole partitioned one.
int drop_known(const ah::TableName &name, const catalog::TableDef &def) {
  if (Status status = atoll::engine::may_write(); !status.ok()) return ah::report(current_thd, status);
  if (ah::is_still_referenced(current_thd, name)) return HA_ERR_ROW_IS_REFERENCED;
  if (any_has_prepared_writers(name, def)) return HA_ERR_LOCK_WAIT_TIMEOUT;
  catalog::Catalog *all = atoll::engine::running()->catalog();
  Status status = def.logical_only ? all->drop_partitioned(name.database, name.table)
                                   : all->drop(name.database, name.table);
  if (status.code() == Code::kNotFound) return HA_ERR_NO_SUCH_TABLE;
  if (status.ok()) status = atoll::engine::running()->gate().after_ddl();
  return ah::report(current_thd, status);
}

int drop_table(handlerton *, const char *path) {
  if (catalog::TablePtr temporary = ah::TemporaryTables::remove(path))
    return ah::to_ha_error(drop_temporary(temporary).code());
  // If no engine is known for a table, the server asks every engine to drop it. So an engine that is not
  // ready must answer "no such table", not with its error. But a table with a .frm file is ours, and must not
  // seem dropped: the server deletes that file after the table.
  if (Status status = atoll::engine::ready(); !status.ok()) {
    const bool is_ours = access((std::string(path) + reg_ext).c_str(), F_OK) == 0;
    return is_ours ? ah::report(current_thd, status) : HA_ERR_NO_SUCH_TABLE;
  }
  const ah::TableName parsed = ah::parse_table_name(path);
  const catalog::TablePtr def = ah::find_definition(parsed).table;
  if (!def) return HA_ERR_NO_SUCH_TABLE;
  if (ah::is_mounted(parsed.database)) {
    if (!ah::is_end_of_mounts(current_thd)) return ah::report(current_thd, ah::past_is_read_only());
    if (def->logical_only) (void)unlink((std::string(path) + ".par").c_str());
    return 0;
  }
  // DROP SEQUENCE must not drop an ordinary table. The server checks that by the .frm file, but cannot if the
  // file does not exist yet (discovery).
  if (current_thd->lex->sql_command == SQLCOM_DROP_SEQUENCE && !is_sequence_image(def->frm))
    return HA_ERR_NO_SUCH_TABLE;
  const int error = drop_known(parsed, *def);
  const bool is_gone = atoll::engine::running()->catalog()->find(parsed.database, parsed.table) == nullptr;
  if (is_gone && def->logical_only) (void)unlink((std::string(path) + ".par").c_str());
  return error;
}

// Whether the file was left by a crash in a DDL statement, or by a crash while files were restored from the
// bucket: a .par file without a table, a .frm file with an internal name, or a half-written file. The server
// does not remove such files, so it could not remove the directory. When this is called, the database has no
// tables any more, and no statement can create one.
bool is_leftover(const std::filesystem::path &file) {
  const std::string name = file.filename().string();
  if (name.ends_with(".TRG~") || name.ends_with(".TRN~") || name.ends_with(".opt~")) return true;
  const std::string extension = file.extension().string();
  if (extension == ".par")
    return !std::filesystem::exists(std::filesystem::path(file).replace_extension(reg_ext));
  return extension == reg_ext && ah::is_internal(name);
}

void remove_leftovers(const std::string &directory, bool is_expected) {
  std::error_code error;
  std::vector<std::filesystem::path> leftovers;
  for (const std::filesystem::path &entry : atoll::entries_of(directory))
    if (is_leftover(entry)) leftovers.push_back(entry);
  for (const std::filesystem::path &file : leftovers) {
    if (!is_expected)
      atoll::log_warning("DROP DATABASE: removing " + file.string() +
                         ", which an interrupted statement left");
    std::filesystem::remove(file, error);
  }
}

void drop_database(handlerton *, char *path) {
  if (!atoll::engine::ready().ok()) return;
  std::string directory(path);
  while (!directory.empty() && directory.back() == '/') directory.pop_back();
  const std::string name = directory.substr(directory.find_last_of('/') + 1);
  (void)unlink((directory + "/" + atoll::engine::kMountMarker).c_str());
  if (atoll::engine::running()->views() != nullptr) return;
  // 11.8 opens each table before it drops it, and so gives those of a mount .par files again.
  const bool was_mount = atoll::engine::running()->mounts()->remove(name);
  remove_leftovers(directory, was_mount);
  if (was_mount) return;
  const Status status = atoll::engine::running()->catalog()->drop_database(name);
  if (!status.ok() && status.code() != Code::kNotFound) atoll::log_error(status.message());
}

}  // namespace

namespace atoll::handler {

ha_create_table_option *table_options();

namespace {

handlerton *the_handlerton = nullptr;

}  // namespace

handlerton *own_handlerton() { return the_handlerton; }

void fill_ddl_callbacks(handlerton *hton) {
  hton->create = guarded_function<make_handler, fails_by<static_cast<::handler *>(nullptr)>>;
  hton->drop_table = guarded_function<drop_table, fails_by_code>;
  hton->drop_database = guarded_function<drop_database, is_logged>;
  hton->table_options = table_options();
}

void fill_handlerton(handlerton *hton) {
  the_handlerton = hton;
  static const char *no_extensions[] = {nullptr};
  hton->db_type = DB_TYPE_AUTOASSIGN;
  hton->flags =
      HTON_SUPPORTS_EXTENDED_KEYS | HTON_REQUIRES_CLOSE_AFTER_TRUNCATE | HTON_TRUNCATE_REQUIRES_EXCLUSIVE_USE;
  hton->tablefile_extensions = no_extensions;
  fill_transaction_callbacks(hton);
  fill_ddl_callbacks(hton);
  fill_discovery_callbacks(hton);
  fill_series_callbacks(hton);
}

}  // namespace atoll::handler
