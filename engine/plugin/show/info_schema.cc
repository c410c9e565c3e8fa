// See info_schema.h. Each view first collects what it shows, and then writes rows. So the engine holds no
// lock while the server writes its temporary table to disk.
#include "handler/server.h"

#include <sql_acl.h>
#include <sql_i_s.h>
#include <sql_show.h>
#include <tztime.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "bridge/callback.h"
#include "bridge/health.h"
#include "bridge/result.h"
#include "bridge/snapshots.h"
#include "catalog/record.h"
#include "engine/running.h"
#include "handler/server/callback.h"
#include "handler/ddl/table_name.h"
#include "plugin/show/connections.h"
#include "plugin/show/info_schema.h"
#include "plugin/show/key_owners.h"

namespace atoll::plugin {
namespace {

namespace columns {
using namespace Show;

constexpr uint kKeyHexMax = 1024;
constexpr uint kTextMax = 1024;

ST_FIELD_INFO tables[] = {Column("TABLE_SCHEMA", Varchar(NAME_LEN), NOT_NULL),
                          Column("TABLE_NAME", Varchar(NAME_LEN), NOT_NULL),
                          Column("TABLE_ID", Show::ULonglong(), NOT_NULL),
                          Column("FAMILY_ID", Show::ULonglong(), NOT_NULL),
                          Column("OWN_FAMILY", Varchar(3), NOT_NULL),
                          Column("KEY_PREFIX", Show::ULonglong(), NOT_NULL),
                          Column("COMPRESSION", Varchar(8), NOT_NULL),
                          Column("COMPRESSION_LEVEL", Show::SLonglong(), NOT_NULL),
                          Column("SCHEMA_VERSION", Show::ULonglong(), NOT_NULL),
                          Column("INDEXES", Show::ULonglong(), NOT_NULL),
                          Column("BYTES", Show::ULonglong(), NOT_NULL),
                          Column("ENTRIES", Show::ULonglong(), NOT_NULL),
                          Column("AUTO_INCREMENT", Show::ULonglong(), NULLABLE),
                          CEnd()};

ST_FIELD_INFO indexes[] = {Column("TABLE_SCHEMA", Varchar(NAME_LEN), NOT_NULL),
                           Column("TABLE_NAME", Varchar(NAME_LEN), NOT_NULL),
                           Column("INDEX_NAME", Varchar(NAME_LEN), NOT_NULL),
                           Column("ORDINAL", Show::ULonglong(), NOT_NULL),
                           Column("IS_UNIQUE", Varchar(3), NOT_NULL),
                           Column("STATE", Varchar(8), NOT_NULL),
                           Column("BYTES", Show::ULonglong(), NOT_NULL),
                           Column("ENTRIES", Show::ULonglong(), NOT_NULL),
                           CEnd()};

ST_FIELD_INFO transactions[] = {
    Column("TRX_ID", Show::ULonglong(), NOT_NULL),    Column("TRX_STATE", Varchar(9), NOT_NULL),
    Column("THREAD_ID", Show::ULonglong(), NULLABLE), Column("STARTED", Show::Datetime(6), NOT_NULL),
    Column("LOCKS", Show::ULonglong(), NOT_NULL),     Column("WRITES", Show::ULonglong(), NOT_NULL),
    Column("QUERY", Varchar(kTextMax), NULLABLE),     CEnd()};

ST_FIELD_INFO locks[] = {Column("TRX_ID", Show::ULonglong(), NOT_NULL),
                         Column("TABLE_SCHEMA", Varchar(NAME_LEN), NULLABLE),
                         Column("TABLE_NAME", Varchar(NAME_LEN), NULLABLE),
                         Column("INDEX_NAME", Varchar(NAME_LEN), NULLABLE),
                         Column("LOCK_KEY", Varchar(kKeyHexMax), NOT_NULL),
                         Column("LOCK_KEY_END", Varchar(kKeyHexMax), NULLABLE),
                         Column("KEY_VALUES", Varchar(kTextMax), NULLABLE),
                         Column("LOCK_MODE", Varchar(9), NOT_NULL),
                         Column("LOCK_STATE", Varchar(7), NOT_NULL),
                         Column("WAITED_MS", Show::ULonglong(), NOT_NULL),
                         Column("BLOCKING_TRX_ID", Show::ULonglong(), NULLABLE),
                         CEnd()};

ST_FIELD_INFO files[] = {Column("FILE_NUMBER", Show::ULonglong(), NOT_NULL),
                         Column("BYTES", Show::ULonglong(), NOT_NULL),
                         Column("TABLE_SCHEMA", Varchar(NAME_LEN), NULLABLE),
                         Column("TABLE_NAME", Varchar(NAME_LEN), NULLABLE),
                         Column("FAMILY_ID", Show::ULonglong(), NULLABLE),
                         Column("LEVEL", Show::ULonglong(), NULLABLE),
                         Column("ENTRIES", Show::ULonglong(), NULLABLE),
                         Column("DELETIONS", Show::ULonglong(), NULLABLE),
                         CEnd()};

ST_FIELD_INFO compactions[] = {Column("JOB", Show::ULonglong(), NOT_NULL),
                               Column("STATE", Varchar(7), NOT_NULL),
                               Column("TABLE_SCHEMA", Varchar(NAME_LEN), NULLABLE),
                               Column("TABLE_NAME", Varchar(NAME_LEN), NULLABLE),
                               Column("FAMILY_ID", Show::ULonglong(), NOT_NULL),
                               Column("REASON", Varchar(40), NOT_NULL),
                               Column("INPUT_LEVEL", Show::ULonglong(), NOT_NULL),
                               Column("OUTPUT_LEVEL", Show::ULonglong(), NOT_NULL),
                               Column("INPUT_FILES", Show::ULonglong(), NOT_NULL),
                               Column("OUTPUT_FILES", Show::ULonglong(), NOT_NULL),
                               Column("INPUT_BYTES", Show::ULonglong(), NOT_NULL),
                               Column("OUTPUT_BYTES", Show::ULonglong(), NOT_NULL),
                               Column("STARTED", Show::Datetime(6), NOT_NULL),
                               Column("TOOK_MS", Show::ULonglong(), NOT_NULL),
                               CEnd()};

ST_FIELD_INFO snapshots[] = {Column("SNAPSHOT_NAME", Varchar(kTextMax), NOT_NULL),
                             Column("KIND", Varchar(10), NOT_NULL),
                             Column("CREATED", Show::Datetime(3), NULLABLE),
                             Column("LAST_COMMIT", Show::Datetime(6), NULLABLE),
                             Column("GTID_POSITION", Varchar(kTextMax), NOT_NULL),
                             Column("BINLOG_FILE_NUMBER", Show::ULonglong(), NULLABLE),
                             Column("BINLOG_OFFSET", Show::ULonglong(), NULLABLE),
                             Column("FILES", Show::ULonglong(), NOT_NULL),
                             Column("SHARED_BYTES", Show::ULonglong(), NOT_NULL),
                             Column("ALONE_BYTES", Show::ULonglong(), NOT_NULL),
                             Column("HOLDER", Varchar(kTextMax), NOT_NULL),
                             Column("PIN", Varchar(kTextMax), NOT_NULL),
                             Column("PROBLEM", Varchar(kTextMax), NULLABLE),
                             CEnd()};
ST_FIELD_INFO readers[] = {Column("SERVER", Varchar(kTextMax), NOT_NULL),
                           Column("LAST_COMMIT", Show::Datetime(6), NULLABLE),
                           Column("GTID_POSITION", Varchar(kTextMax), NOT_NULL),
                           Column("BEHIND_MS", Show::ULonglong(), NULLABLE),
                           Column("PINNED", Show::Datetime(3), NULLABLE),
                           Column("PIN", Varchar(kTextMax), NOT_NULL),
                           CEnd()};
}  // namespace columns

// Fills one row of a view, field by field.
class Row {
 public:
  Row(THD *thd, TABLE *table) : thd_(thd), table_(table) { restore_record(table, s->default_values); }

  Row &number(uint64_t value) {
    next()->store(static_cast<longlong>(value), true);
    return *this;
  }
  Row &number_or_null(uint64_t value) { return value == 0 ? null() : number(value); }
  Row &text(std::string_view value) {
    next()->store(value.data(), value.size(), system_charset_info);
    return *this;
  }
  Row &text_or_null(std::string_view value) { return value.empty() ? null() : text(value); }
  Row &name(const std::string &file_name) { return text(handler::sql_name(file_name)); }
  Row &names_of(const catalog::TableDef *table) {
    return table == nullptr ? null().null() : name(table->database).name(table->name);
  }
  Row &yes_no(bool value) { return text(value ? "YES" : "NO"); }
  Row &null() {
    next()->set_null();
    return *this;
  }
  Row &time_us(uint64_t us) {
    MYSQL_TIME time;
    thd_->variables.time_zone->gmt_sec_to_TIME(&time, static_cast<my_time_t>(us / 1000000));
    time.second_part = us % 1000000;
    next()->store_time(&time);
    return *this;
  }
  Row &time_us_or_null(uint64_t us) { return us == 0 ? null() : time_us(us); }
  // Returns false when the statement fails.
  bool store() { return !schema_table_store_record(thd_, table_); }

 private:
  Field *next() {
    Field *field = table_->field[at_++];
    field->set_notnull();
    return field;
  }

  THD *thd_;
  TABLE *table_;
  size_t at_ = 0;
};

const char *compression_name(lsm::Algorithm algorithm) {
  switch (algorithm) {
    case lsm::Algorithm::kNone:
      return "none";
    case lsm::Algorithm::kLz4:
      return "lz4";
    case lsm::Algorithm::kZstd:
      return "zstd";
    case lsm::Algorithm::kZlib:
      return "zlib";
  }
  return "";
}

// Whether the views show rows to the user: only while the engine runs, and only with the PROCESS privilege,
// with which a user also sees the queries of all other users.
bool may_see(THD *thd) {
  return engine::running() != nullptr && !check_global_access(thd, PROCESS_ACL, true);
}

// The tables that this server shows: its own, or those of a reader's newest view.
class Shown {
 public:
  const catalog::Catalog &catalog() const { return view_ ? view_->catalog() : *running_->catalog(); }
  lsm::RangeEstimate estimate(const catalog::Doomed::Range &range) const {
    lsm::Database *database = running_->database();
    lsm::Family *family =
        view_ ? view_->find_family(range.family_id) : database->find_family(range.family_id);
    return family == nullptr ? lsm::RangeEstimate{} : database->estimate(family, range.begin, range.end);
  }

 private:
  engine::Engine *const running_ = engine::running();
  const engine::ViewPtr view_ = running_->views() == nullptr ? nullptr : running_->views()->newest();
};

int fill_tables(THD *thd, TABLE_LIST *list, COND *) {
  if (!may_see(thd)) return 0;
  const Shown shown;
  for (const catalog::TablePtr &table : shown.catalog().list("")) {
    if (is_statement_killed(thd)) return 1;
    lsm::RangeEstimate size;
    if (!table->logical_only) size = shown.estimate(catalog::table_range(*table));
    Row row(thd, list->table);
    row.name(table->database).name(table->name).number(table->id).number(table->family_id);
    row.yes_no(table->own_family).number(table->prefix).text(compression_name(table->compression.algorithm));
    row.number(static_cast<uint64_t>(static_cast<int64_t>(table->compression.level)));
    row.number(table->versions.empty() ? 0 : table->versions.back().version).number(table->indexes.size());
    row.number(size.bytes).number(size.entries).number_or_null(shown.catalog().auto_increment(table->id));
    if (!row.store()) return 1;
  }
  return 0;
}

int fill_indexes(THD *thd, TABLE_LIST *list, COND *) {
  if (!may_see(thd)) return 0;
  const Shown shown;
  for (const catalog::TablePtr &table : shown.catalog().list("")) {
    if (table->logical_only) continue;
    for (const catalog::IndexDef &index : table->indexes) {
      if (is_statement_killed(thd)) return 1;
      const lsm::RangeEstimate size = shown.estimate(catalog::index_range(*table, index.ordinal));
      Row row(thd, list->table);
      row.name(table->database).name(table->name).text(index.name).number(index.ordinal).yes_no(index.unique);
      row.text(index.building ? "building" : "ready").number(size.bytes).number(size.entries);
      if (!row.store()) return 1;
    }
  }
  return 0;
}

int fill_transactions(THD *thd, TABLE_LIST *list, COND *) {
  if (!may_see(thd)) return 0;
  const std::vector<txn::TransactionInfo> transactions = engine::running()->transactions()->list();
  Connections connections = connections_of(transactions);
  for (const txn::TransactionInfo &info : transactions) {
    Row row(thd, list->table);
    const Connection &connection = connections[info.id];
    row.number(info.id).text(info.prepared ? "prepared" : "active").number_or_null(connection.thread_id);
    row.time_us(info.started_us).number(info.locks).number(info.writes).text_or_null(connection.query);
    if (!row.store()) return 1;
  }
  return 0;
}

std::string shown_key(std::string_view key) { return to_hex(key.substr(0, columns::kKeyHexMax / 2)); }

int fill_locks(THD *thd, TABLE_LIST *list, COND *) {
  // While the tables are closed, nobody may see the keys that the masking locks.
  if (!may_see(thd) || !engine::ready().ok()) return 0;
  const KeyOwners owners(*engine::running()->catalog());
  for (const txn::LockInfo &lock : engine::running()->transactions()->locks()->list()) {
    Row row(thd, list->table);
    row.number(lock.transaction_id);
    const catalog::TablePtr table = owners.table(lock.family_id, lock.key);
    row.names_of(table.get());
    table ? row.text(KeyOwners::index_name(*table, lock.key)) : row.null();
    row.text(shown_key(lock.key));
    lock.key_end.empty() ? row.null() : row.text(shown_key(lock.key_end));
    table ? row.text(KeyOwners::values(*table, lock.key).substr(0, columns::kTextMax)) : row.null();
    row.text(lock.mode_name());
    row.text(lock.waiting ? "waiting" : "granted")
        .number(lock.waited_ms)
        .number_or_null(lock.blocking_transaction_id);
    if (!row.store()) return 1;
  }
  return 0;
}

int fill_files(THD *thd, TABLE_LIST *list, COND *) {
  if (!may_see(thd) || engine::running_writer() == nullptr) return 0;
  engine::Engine *running = engine::running();
  std::map<uint64_t, uint64_t> sizes;
  const auto add_size = [&sizes](uint64_t number, uint64_t size) { sizes.emplace(number, size); };
  bridge::Callback each(add_size);
  atoll_store_list_files(running->store(), &each, each.function<uint64_t, uint64_t>());
  each.rethrow();
  std::map<uint64_t, lsm::TableFile> live;
  for (lsm::TableFile &file : running->database()->table_files()) live.emplace(file.number, std::move(file));
  const KeyOwners owners(*running->catalog());
  for (const auto &[number, size] : sizes) {
    Row row(thd, list->table);
    row.number(number).number(size);
    if (const auto found = live.find(number); found != live.end()) {
      const lsm::TableFile &file = found->second;
      row.names_of(owners.table(file).get()).number(file.family_id).number(static_cast<uint64_t>(file.level));
      // RocksDB reads these numbers from the file itself, and after a restart only when it opens the file.
      file.entries == 0 ? row.null().null() : row.number(file.entries).number(file.deletions);
    } else {
      row.null().null().null().null().null().null();  // not added to RocksDB yet, or dropped by it already
    }
    if (!row.store()) return 1;
  }
  return 0;
}

const char *state_name(lsm::Compaction::State state) {
  switch (state) {
    case lsm::Compaction::State::kRunning:
      return "running";
    case lsm::Compaction::State::kDone:
      return "done";
    case lsm::Compaction::State::kFailed:
      return "failed";
  }
  return "";
}

int fill_compactions(THD *thd, TABLE_LIST *list, COND *) {
  if (!may_see(thd)) return 0;
  const KeyOwners owners(*engine::running()->catalog());
  for (const lsm::Compaction &each : engine::running()->database()->compactions()) {
    Row row(thd, list->table);
    row.number(static_cast<uint64_t>(each.job)).text(state_name(each.state));
    row.names_of(owners.sole_table(each.family_id).get()).number(each.family_id).text(each.reason);
    row.number(static_cast<uint64_t>(each.input_level)).number(static_cast<uint64_t>(each.output_level));
    row.number(each.input_files).number(each.output_files).number(each.input_bytes).number(each.output_bytes);
    row.time_us(each.started_us).number(each.took_us / 1000);
    if (!row.store()) return 1;
  }
  return 0;
}

// A copy of what atoll_store_list_snapshots() reports about a snapshot, kept until the rows are written.
struct SnapshotRow {
  explicit SnapshotRow(const atoll_snapshot &told)
      : name(told.name),
        kind(told.kind),
        gtid_position(told.gtid_position),
        creator(told.creator),
        pin(told.pin),
        problem(told.problem),
        numbers(told) {}
  std::string name, kind, gtid_position, creator, pin, problem;
  atoll_snapshot numbers;  // only its numbers: its pointers to texts are not valid any more
};

int fill_snapshots(THD *thd, TABLE_LIST *list, COND *) {
  if (!may_see(thd) || engine::running_writer() == nullptr) return 0;
  std::vector<SnapshotRow> rows;
  const auto add_row = [&rows](const atoll_snapshot *snapshot) { rows.emplace_back(*snapshot); };
  const Status status = bridge::for_each_snapshot(engine::running()->store(), add_row);
  if (!status.ok()) {
    my_printf_error(ER_GET_ERRMSG, "ATOLL: reading the snapshots: %s", MYF(0), status.message());
    return 1;
  }
  for (const SnapshotRow &each : rows) {
    const atoll_snapshot &numbers = each.numbers;
    Row row(thd, list->table);
    row.text(each.name)
        .text(each.kind)
        .time_us_or_null(numbers.created_ms * 1000)
        .time_us_or_null(numbers.commit_us);
    row.text(each.gtid_position);
    numbers.binlog_offset == 0 ? row.null().null()
                               : row.number(numbers.binlog_file).number(numbers.binlog_offset);
    row.number(numbers.files).number(numbers.shared_bytes).number(numbers.alone_bytes);
    row.text(each.creator).text(each.pin).text_or_null(each.problem);
    if (!row.store()) return 1;
  }
  return 0;
}

// How much older the newest commit that a reader shows is than the newest one of this server.
void add_delay(Row *row, uint64_t shown_us) {
  atoll_store_health health{};
  atoll_store_get_health(engine::running()->store(), &health);
  if (shown_us == 0)
    row->null();
  else
    row->number((std::max(health.last_commit_us, shown_us) - shown_us) / 1000);
}

int fill_readers(THD *thd, TABLE_LIST *list, COND *) {
  if (!may_see(thd) || engine::running_writer() == nullptr) return 0;
  std::vector<SnapshotRow> rows;
  const auto add_row = [&rows](const atoll_snapshot *pin) { rows.emplace_back(*pin); };
  const Status status = bridge::for_each_reader(engine::running()->store(), add_row);
  if (!status.ok()) {
    my_printf_error(ER_GET_ERRMSG, "ATOLL: reading the pins of readers: %s", MYF(0), status.message());
    return 1;
  }
  for (const SnapshotRow &each : rows) {
    Row row(thd, list->table);
    row.text(each.creator).time_us_or_null(each.numbers.commit_us).text(each.gtid_position);
    add_delay(&row, each.numbers.commit_us);
    row.time_us_or_null(each.numbers.created_ms * 1000).text(each.pin);
    if (!row.store()) return 1;
  }
  return 0;
}

template <auto kFill>
constexpr auto guarded_fill = guarded_function<kFill, handler::fails_by<1>>;

int init_view(void *schema_table, ST_FIELD_INFO *fields, int (*fill)(THD *, TABLE_LIST *, COND *)) {
  auto *schema = static_cast<ST_SCHEMA_TABLE *>(schema_table);
  schema->fields_info = fields;
  schema->fill_table = fill;
  return 0;
}

}  // namespace

int init_tables_view(void *schema_table) {
  return init_view(schema_table, columns::tables, guarded_fill<fill_tables>);
}
int init_indexes_view(void *schema_table) {
  return init_view(schema_table, columns::indexes, guarded_fill<fill_indexes>);
}
int init_transactions_view(void *schema_table) {
  return init_view(schema_table, columns::transactions, guarded_fill<fill_transactions>);
}
int init_locks_view(void *schema_table) {
  return init_view(schema_table, columns::locks, guarded_fill<fill_locks>);
}
int init_files_view(void *schema_table) {
  return init_view(schema_table, columns::files, guarded_fill<fill_files>);
}
int init_compactions_view(void *schema_table) {
  return init_view(schema_table, columns::compactions, guarded_fill<fill_compactions>);
}
int init_snapshots_view(void *schema_table) {
  return init_view(schema_table, columns::snapshots, guarded_fill<fill_snapshots>);
}
int init_readers_view(void *schema_table) {
  return init_view(schema_table, columns::readers, guarded_fill<fill_readers>);
}

}  // namespace atoll::plugin
