// ha_atoll: capabilities, open and close.
#include "handler/ha_atoll.h"

#include "handler/foreign/foreign_keys.h"

#include "base/log.h"
#include "base/messages/reason_first.h"
#include "engine/running.h"
#include "table/copy/bulk_copy.h"
#include "handler/server/compat/copy_step.h"
#include "handler/server/compat/flags.h"
#include "handler/server/description.h"
#include "handler/server/error_map.h"
#include "handler/ddl/definition.h"
#include "handler/ddl/table_name.h"
#include "handler/ddl/temporary_tables.h"
#include "handler/write/virtual_columns.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;

namespace {

// Whether `share` was made from the .frm that the catalog has. Each ALTER gives the .frm a new unique number.
bool has_frm_of(const TABLE_SHARE *share, const atoll::catalog::TableDef &def) {
  const LEX_CUSTRING &version = share->tabledef_version;
  const std::string_view number(reinterpret_cast<const char *>(version.str), version.length);
  return def.frm.find(number) != std::string::npos;
}

// Whether `share` was made from an older .frm than the catalog has. An ALTER may have renamed or reordered
// columns, and its .frm may not have reached the data directory.
bool is_outdated(const TABLE_SHARE *share, const atoll::catalog::TableDef &def) {
  const bool has_frm = !def.frm.empty() && !ah::is_partition(def.name);
  return has_frm && share->tabledef_version.length != 0 && !has_frm_of(share, def);
}

// Returns the error for a table or partition that is not in the catalog. For a partition of a table that has
// the .frm of the catalog, the server would discover that .frm again for ever, so the error is kCorruption.
Status absence(const TABLE_SHARE *share, const ah::TableName &name) {
  const std::string missing = name.database + "/" + name.table + " is not in the catalog";
  if (!ah::is_partition(name.table)) return Status(Code::kNotFound, "table " + missing);
  const std::string whole(atoll::catalog::whole_table(name.table));
  const atoll::catalog::TablePtr def = ah::find_definition({name.database, whole}).table;
  return Status(def && has_frm_of(share, *def) ? Code::kCorruption : Code::kNotFound, "partition " + missing);
}

// Returns the error for a .frm that does not fit the definition in the catalog. If the .frm is not the one of
// the catalog, returns `status`, by which the server discovers the .frm of the catalog. If it is the one of
// the catalog, the server would discover it again for ever, so the error is kCorruption. Only a mistake in
// Atoll can cause that.
Status contradiction(const TABLE_SHARE *share, const ah::TableName &name, const Status &status) {
  const atoll::catalog::TablePtr owner =
      ah::find_definition({name.database, std::string(ah::whole_table(name.table))}).table;
  if (!owner || !has_frm_of(share, *owner)) return status;
  return Status(
      Code::kCorruption,
      std::string(status.message()) +
          "; the .frm of the last ALTER and the catalog's columns contradict each other. The rows "
          "are left as they are; do not drop the table. ATOLL_MOUNT() can show it as it was in a "
          "snapshot or at a moment before, and the version of Atoll that altered it last may read it");
}

// Stores a description of `table` in its entry if the entry has none, because an earlier version of Atoll has
// made it. Returns the entry. If the write fails, the table is used as it is, and the next open tries again.
atoll::catalog::TablePtr described(const TABLE *table, const atoll::catalog::TablePtr &def,
                                   const atoll::lsm::Family *family) {
  const bool is_present = family->side() == atoll::lsm::Side::kMain;
  if (def->description.is_known() || !is_present || !atoll::engine::may_write().ok()) return def;
  atoll::catalog::TablePtr described;
  const Status status =
      atoll::engine::running()->catalog()->describe(def->id, ah::describe(table), &described);
  if (status.ok()) return described;
  atoll::log_warning("the columns of table " + def->database + "/" + def->name +
                     " could not be noted in the catalog: " + status.message());
  return def;
}

}  // namespace

ha_atoll::ha_atoll(handlerton *hton, TABLE_SHARE *share) : ServerHandler(hton, share) {}
ha_atoll::~ha_atoll() = default;

// Statement-based logging is allowed only if range locks protect what a statement reads, which they do from
// REPEATABLE READ on. A replica always accepts statements in this form.
handler::Table_flags ha_atoll::table_flags() const noexcept {
  Table_flags flags = HA_BINLOG_ROW_CAPABLE | HA_REC_NOT_IN_SEQ | HA_PRIMARY_KEY_REQUIRED_FOR_POSITION |
                      HA_PRIMARY_KEY_IN_READ_INDEX | HA_TABLE_SCAN_ON_INDEX | HA_NULL_IN_KEY |
                      HA_CAN_INDEX_BLOBS | HA_PARTIAL_COLUMN_READ | HA_REQUIRES_KEY_COLUMNS_FOR_DELETE |
                      HA_CAN_VIRTUAL_COLUMNS | HA_CAN_SQL_HANDLER | HA_CAN_TABLES_WITHOUT_ROLLBACK |
                      HA_CAN_ONLINE_BACKUPS | HA_ONLINE_ANALYZE | HA_CONCURRENT_OPTIMIZE |
                      HA_CAN_SKIP_LOCKED | HA_CAN_GEOMETRY | HA_CAN_TABLE_CONDITION_PUSHDOWN |
                      ah::kSeriesTableFlags;
  THD *thd = ha_thd();
  const bool ranges_protected = thd == nullptr || thd_tx_isolation(thd) >= ISO_REPEATABLE_READ;
  if (ranges_protected || thd->slave_thread) flags |= HA_BINLOG_STMT_CAPABLE;
  return flags;
}

ulong ha_atoll::index_flags(uint index, uint part, bool all_parts) const noexcept {
  ulong flags = HA_READ_NEXT | HA_READ_PREV | HA_READ_ORDER | HA_READ_RANGE;
  const KEY &key = table_share->key_info[index];
  if (index == table_share->primary_key) return flags | ah::kClusteredIndexFlags;
  flags |= HA_DO_INDEX_COND_PUSHDOWN | ah::rowid_filter_flag(locking());
  const uint first = all_parts ? 0 : part;
  for (uint i = first; i <= part && i < key.user_defined_key_parts; i++) {
    const Field *field = table_share->field[key.key_part[i].fieldnr - 1];
    if ((field->flags & BLOB_FLAG) || field->key_length() != key.key_part[i].length) return flags;
  }
  return flags | HA_KEYREAD_ONLY;
}

// Costs for the optimizer, in the units of the server's cost model (one disk access = 1). Reading the table
// in key order is sequential. Reading a row by its key reads a block, which is expensive if the table is not
// in memory. Lookups by a secondary index beyond a twentieth of the table's rows (or beyond kManyLookupsMin,
// if that is more) cost kManyLookupsFactor more each (lookup_pages() says why).
constexpr double kManyLookupsFactor = 3;
constexpr ha_rows kManyLookupsMin = 1000;

// Returns the time in InnoDB's unit, pages of 16 KiB of uncompressed rows, because the optimizer's constants
// are made for that unit and a join may have tables of both engines. Compressed bytes count twice, because
// rows take about twice as many bytes when they are uncompressed. But to read a row takes time however well
// it is compressed.
double ha_atoll::scan_pages() noexcept {
  const bool compressed =
      open_table_.is_open() && layout()->def().compression.algorithm != atoll::lsm::Algorithm::kNone;
  const ulonglong stored = std::max<ulonglong>(stats.data_file_length, stats.records * kRowBytesMin);
  const double bytes = static_cast<double>(stored) * (compressed ? 2 : 1);
  return std::max(bytes / (16.0 * 1024), 1.0);
}

double ha_atoll::range_pages(ulong ranges, ha_rows rows) noexcept {
  const double scan = scan_pages();
  const double total = static_cast<double>(std::max<ha_rows>(stats.records, 1));
  if (static_cast<double>(rows) >= total) return scan;
  return static_cast<double>(ranges) + static_cast<double>(rows) / total * scan;
}

double ha_atoll::lookup_pages(ulong ranges, ha_rows rows) noexcept {
  // By measurement, a lookup takes as long as scanning 27 rows, because a scan runs on all cores and
  // evaluates conditions on packed rows. The optimizer's constants do not reflect that, so many lookups cost
  // more here. The cost of few lookups is not changed, because plans of joins depend on it. The limit is one
  // read for each row of the table: for a statement with LIMIT, the server would otherwise choose a scan of
  // the whole index instead of the range.
  const ha_rows many = std::max<ha_rows>(stats.records / 20, kManyLookupsMin);
  const ha_rows beyond = rows > many ? rows - many : 0;
  const auto lookups = static_cast<double>(ranges + rows);
  const double dearer = lookups + kManyLookupsFactor * static_cast<double>(beyond);
  return std::max(lookups, std::min(dearer, static_cast<double>(stats.records)));
}

Status ha_atoll::load_layout(const char *name) {
  ATOLL_RETURN_IF_ERROR(atoll::engine::ready());
  atoll::engine::Engine *running = atoll::engine::running();
  const ah::TableName parsed = ah::parse_table_name(name);
  ATOLL_RETURN_IF_ERROR(ah::refuse_newer_series(static_cast<uint32_t>(table_share->mysql_version), parsed));
  ah::Definition found;
  // The server sets tmp_table also for the copy that an ALTER fills, although the copy is an ordinary table.
  // Only TemporaryTables knows whether the table is a TEMPORARY one.
  if (table_share->tmp_table != NO_TMP_TABLE) found.table = ah::TemporaryTables::find(name);
  if (found.table)
    found.family = running->database()->temp_family();
  else {
    bound_view_.bind(ah::shown_view());
    found = ah::find_definition(parsed);
  }
  const auto &[def, family] = found;
  if (!def) return absence(table_share, parsed);
  if (is_outdated(table_share, *def))
    return Status(Code::kInvalid,
                  std::string("table ") + name + ": the .frm file differs from the catalog's");
  if (family == nullptr)
    return Status(Code::kCorruption,
                  "its column family is missing; if the server's log of the start does not say why, restore "
                  "the bucket, or drop the table");
  std::shared_ptr<const Layout> layout;
  Status status = ah::build_layout(table, def, family, &layout);
  if (status.ok())
    if (const atoll::catalog::TablePtr better = described(table, def, family); better != def)
      status = ah::build_layout(table, better, family, &layout);
  if (status.ok()) open_table_.set_layout(std::move(layout));
  return status.code() == Code::kInvalid && def->id != 0 ? contradiction(table_share, parsed, status)
                                                         : status;
}

void ha_atoll::find_share() {
  lock_shared_ha_data();
  const auto unlock = [](ha_atoll *file) { file->unlock_shared_ha_data(); };
  const std::unique_ptr<ha_atoll, decltype(unlock)> locked(this, unlock);
  share_ = static_cast<ah::Share *>(get_ha_share_ptr());
  if (share_ == nullptr) {
    share_ = new ah::Share(layout());
    set_ha_share_ptr(share_);
  } else if (share_->layout()->def_ptr() == layout()->def_ptr()) {
    open_table_.set_layout(share_->layout());  // one layout for all handlers of a table
  } else {
    share_->set_layout(layout());
  }
}

int ha_atoll::open(const char *name, int, uint) {
  Status status = load_layout(name);
  if (status.code() == Code::kNotFound) return HA_ERR_NO_SUCH_TABLE;
  if (status.code() == Code::kInvalid && atoll::engine::running() != nullptr) return HA_ERR_TABLE_DEF_CHANGED;
  if (!status.ok()) return fail(status);

  find_share();
  bound_view_.let_expire(table_share, layout()->def());
  atoll::engine::Engine *running = atoll::engine::running();
  open_table_.connect(running->transactions()->locks(), is_sequence());
  ref_length =
      layout()->hidden_primary() ? ah::kHiddenIdLength : table->key_info[table_share->primary_key].key_length;
  stats.block_size = 16384;
  keys_.open();
  indexes_virtual_text_ = ah::indexes_virtual_text(table);
  load_statistics();
  return info(HA_STATUS_NO_LOCK | HA_STATUS_VARIABLE | HA_STATUS_CONST | HA_STATUS_OPEN);
}

int ha_atoll::close() {
  reader_.close();
  parallel_.reset();
  bulk_.reset();
  open_table_.set_layout(nullptr);
  bound_view_.bind(nullptr);
  return 0;
}

// Clears the state of a statement. The server calls this at the end of the statement for each table that the
// statement has used.
int ha_atoll::reset() {
  reader_.end_statement();
  parallel_.reset();
  multi_range_.end();
  view_.set_condition(nullptr);
  view_.set_keyread(false);
  reader_.wanted().entries_suffice = false;
  writer_.end_statement();
  if (foreign_) foreign_->end_statement();
  is_foreign_loaded_ = false;
  mode()->skip_locked = false;
  shown_error_ = 0;
  return 0;
}

int ha_atoll::extra(ha_extra_function operation) {
  switch (ah::copy_step(operation)) {
    case ah::CopyStep::kNone:
      break;
    case ah::CopyStep::kBegin:
      begin_copy(false);
      return 0;
    case ah::CopyStep::kBeginIgnore:
      begin_copy(true);
      return 0;
    case ah::CopyStep::kEnd:
      return end_copy();
    case ah::CopyStep::kAbort:
      bulk_.reset();
      return 0;
  }
  switch (operation) {
    case HA_EXTRA_KEYREAD:
      view_.set_keyread(true);
      choose_entries();
      break;
    case HA_EXTRA_NO_KEYREAD:
      view_.set_keyread(false);
      reader_.wanted().entries_suffice = false;
      break;
    case HA_EXTRA_PREPARE_FOR_FORCED_CLOSE:
    case HA_EXTRA_PREPARE_FOR_RENAME:
      reader_.close();
      parallel_.reset();
      break;
    default:
      break;
  }
  return 0;
}

handler *ha_atoll::clone(const char *name, MEM_ROOT *mem_root) {
  auto *copy = static_cast<ha_atoll *>(::handler::clone(name, mem_root));
  if (copy != nullptr) {
    copy->open_table_.set_layout(layout());
    copy->bound_view_ = bound_view_;
    copy->session_ = session_;
    *copy->mode() = *mode();
  }
  return copy;
}

// Adds the table's name to the message, because the layers below do not know it. Errors of the bucket or of
// the server (kUnavailable, kFenced, ...) get no name, because they are not about one table.
int ha_atoll::fail(const Status &status) {
  const Code code = status.code();
  if (code == Code::kForeignKey) {
    last_error_ = status;
    return session_->violation.error;
  }
  const bool is_of_table =
      code == Code::kInvalid || code == Code::kNoSpace || code == Code::kCorruption || code == Code::kBug;
  last_error_ = is_of_table && table_share != nullptr
                    ? status.with("table " + ah::shown_table(ha_thd(), table_share))
                    : status;
  return ah::report(ha_thd(), last_error_);
}

// Reports the error of a read whose caller in the server ignores errors. The server does so when it fills a
// rowid filter, collects the rows of an index merge, begins a loose scan, or looks for the maximum of a group
// in a loose scan. Without a report, an UPDATE would succeed and change nothing, a client would wait for the
// end of a result, or MAX would return the value of another group.
int ha_atoll::show_read_error(int error) {
  if (error == 0 || error == HA_ERR_END_OF_FILE || error == HA_ERR_KEY_NOT_FOUND) return error;
  print_error(error, MYF(0));
  shown_error_ = error;
  return error;
}

// Skips an error that show_read_error() has already reported, because some callers in the server do report
// it.
void ha_atoll::print_error(int error, myf flags) noexcept {
  if (error != std::exchange(shown_error_, 0)) ::handler::print_error(error, flags);
}

// The server appends this text to its own message, even if that message is complete. So only errors for which
// SQL has no message of its own get a text.
bool ha_atoll::get_error_message(int error, String *out) noexcept {
  if (last_error_.code() == Code::kForeignKey) {
    if (error != session_->violation.error) return false;
    const std::string &constraint = session_->violation.constraint;
    out->copy(constraint.data(), static_cast<uint32>(constraint.size()), system_charset_info);
    return false;
  }
  if (last_error_.ok() || ah::to_ha_error(last_error_) != error) return false;
  switch (last_error_.code()) {
    case Code::kDeadlock:
    case Code::kLockTimeout:
    case Code::kDuplicate:
    case Code::kNotFound:
    case Code::kInterrupted:
      return false;
    default:
      break;
  }
  const std::string text = atoll::reason_first(last_error_.message());
  out->copy(text.data(), static_cast<uint32>(text.size()), system_charset_info);
  return false;
}
