// ha_atoll: instant and in-place ALTER, for the changes that alter_support.cc accepts.
//
// Indexes, or the whole table, are built while other transactions write (online_build.h).
//
// Order: A new index is stored in the catalog as `building` before its first entry is written. After a crash,
// Catalog::open() therefore finds the index and removes it. A table that moves is built in a new column
// family that the catalog does not name yet; after a crash, Catalog::open() drops that family. The commit
// stores all changed definitions (for a partitioned table, those of all partitions) and the new .frm in one
// write. The ALTER takes effect with that write.
#include "handler/ha_atoll.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/log.h"
#include "base/mutex.h"
#include "base/work.h"
#include "engine/running.h"
#include "handler/alter/alter_definition.h"
#include "handler/server/error_map.h"
#include "handler/handlerton.h"
#include "handler/alter/build_view.h"
#include "handler/alter/gained_numbers.h"
#include "handler/ddl/outgrown.h"
#include "handler/ddl/table_name.h"
#include "handler/ddl/temporary_tables.h"
#include "handler/foreign/alter.h"
#include "handler/write/next_number.h"
#include "table/online/online_claims.h"
#include "table/online/online_index_build.h"
#include "table/online/online_move.h"
#include "table/online/online_numbers.h"
#include "table/write/large_rows.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace at = atoll::table;
namespace catalog = atoll::catalog;

namespace {

// The state of an ALTER for one table, or for one partition of a partitioned table.
class AlterContext final : public inplace_alter_handler_ctx {
 public:
  explicit AlterContext(ah::Share *share_of_table) : share(share_of_table) {}
  ~AlterContext() override {
    end_build();
    if (family != nullptr) database()->drop_family(family->id());
  }

  void end_build() {
    if (snapshot != nullptr) database()->release_snapshot(atoll::lsm::Side::kMain, snapshot);
    snapshot = nullptr;
    if (!online) return;
    online->close();
    share->set_online_build(nullptr);
    online.reset();
  }
  bool builds() const { return altered.moves || !altered.added_indexes.empty(); }
  // Begins the online build: from now on, writers log their changes for it. Requires: no statement writes the
  // table now. `present`: the table's layout, with records of `record_bytes`.
  Status begin_build(std::shared_ptr<const ah::Layout> present, size_t record_bytes, TABLE *table);
  static atoll::lsm::Database *database() { return atoll::engine::running()->database(); }

  ah::Share *share;
  catalog::TablePtr before;                  // the definition that the catalog holds
  ah::AlteredDefinition altered;             // the definition that it holds after the commit
  std::shared_ptr<const ah::Layout> former;  // of the table before the ALTER; set if the ALTER builds
  std::shared_ptr<const ah::Layout> layout;  // of the altered table
  std::vector<size_t> new_indexes;           // indexes to build, by number in `layout`, without a hidden key
  std::optional<at::RekeySource> rekey;      // set if the primary key changes
  atoll::lsm::Family *family = nullptr;      // the new family, until the catalog names it; else nullptr
  const rocksdb::Snapshot *snapshot = nullptr;
  std::optional<ah::ServerBuildView> view;
  std::shared_ptr<at::OnlineBuild> online;
  catalog::ForeignKeyChanges foreign_keys;
  bool is_built = false;       // build_all() has been called for this context
  bool gains_numbers = false;  // a column becomes AUTO_INCREMENT (gained_numbers.h)
};

// The contents of new .frm files that the server has announced for ALTERs that are not committed yet, by
// "database/table". There is rarely more than one.
struct Announced {
  atoll::Mutex mutex;
  std::map<std::string, std::string> frms ATOLL_GUARDED_BY(mutex);
} announced;

std::string announced_key(const std::string &database, const std::string &table) {
  return (database + "/").append(ah::whole_table(table));
}

// Removes and returns the announced .frm of the table; empty if none was announced.
std::string take_announced(const catalog::TableDef &def) {
  const atoll::MutexLock guard(announced.mutex);
  auto node = announced.frms.extract(announced_key(def.database, def.name));
  return node ? std::move(node.mapped()) : std::string();
}

bool fail_alter(const TABLE *table, const Status &status, const char *what) {
  const std::string name = ah::shown_table(table->in_use, table->s);
  my_printf_error(ER_INTERNAL_ERROR, "ATOLL: ALTER of table %s failed while %s: %s", MYF(0), name.c_str(),
                  what, status.message());
  return true;
}

// Returns, for an ALTER that changes the primary key, the range of the keys of the present rows, and the
// bytes with which the keys of all claims begin. A claim is an entry that connects a new key with an old one
// (online_claims.h).
at::RekeySource rekey_source(const ah::Layout &before, uint16_t claims_ordinal) {
  at::RekeySource source{before.primary_index().start, before.primary_index().end, {}};
  const atoll::codec::KeyCodec claims(claims_ordinal, {}, 0);
  claims.append_start(before.def().prefix, &source.claims_start);
  return source;
}

at::OnlineBuild::Resources online_resources() {
  atoll::lsm::Database *database = atoll::engine::running()->database();
  // The build calls before_commit() before each write. KILL can end a wait in that function, but not the wait
  // of a write that RocksDB holds back.
  return {database, database, ah::TemporaryTables::take_prefix(),
          [] { return atoll::engine::running()->gate().before_commit(false); }};
}

// Makes the online build. From now on, every change of a row must be logged for it. Requires: no statement
// writes the table now.
std::shared_ptr<at::OnlineBuild> online_build(AlterContext *context, at::OnlineIndexBuild::Writers writers) {
  at::OnlineBuild::Plan plan{context->layout, context->new_indexes};
  at::BuildView *view = &*context->view;
  if (context->altered.moves)
    return std::make_shared<at::OnlineMove>(std::move(plan), online_resources(), view);
  if (!context->rekey)
    return std::make_shared<at::OnlineIndexBuild>(std::move(plan), writers, online_resources(), view);
  if (context->layout->hidden_primary())
    return std::make_shared<at::OnlineNumbers>(std::move(plan), *context->rekey, online_resources(), view);
  return std::make_shared<at::OnlineClaims>(std::move(plan), *context->rekey, online_resources(), view);
}

// Stores the new indexes in the catalog as `building`, so that a crash leaves no entries of unknown indexes.
// build_all() syncs what was stored for all partitions.
Status note_new_indexes(AlterContext *context, const ah::Layout &former) {
  const catalog::TableDef &def = context->altered.def;
  catalog::TableDef building = *context->before;
  building.next_ordinal = def.next_ordinal;
  for (const catalog::IndexDef &index : def.indexes) {
    if (index.ordinal < context->before->next_ordinal) continue;
    building.indexes.push_back(index);
    building.indexes.back().building = true;
  }
  if (context->altered.rekeyed) {
    uint64_t pieces = 0;
    ATOLL_RETURN_IF_ERROR(atoll::table::count_row_pieces(former, 1, &pieces));
    if (pieces != 0) return Status(Code::kInvalid, atoll::table::kPiecesHinderRekey);
    context->rekey = rekey_source(former, context->altered.claims_ordinal);
    building.indexes.push_back({"#claims", context->altered.claims_ordinal, false, true});
  }
  return atoll::engine::running()->catalog()->update_unsynced(building);
}

Status AlterContext::begin_build(std::shared_ptr<const ah::Layout> present, size_t record_bytes,
                                 TABLE *table) {
  former = std::move(present);
  const std::vector<std::string> &names = altered.added_indexes;
  for (size_t i = 0; i < layout->index_count(); i++)
    if (altered.moves || std::find(names.begin(), names.end(), layout->index(i).name) != names.end())
      new_indexes.push_back(i);
  if (!altered.moves) ATOLL_RETURN_IF_ERROR(note_new_indexes(this, *former));
  snapshot = database()->take_snapshot(atoll::lsm::Side::kMain);
  view.emplace(*layout, table, new_indexes);
  online = online_build(this, {*former, record_bytes});
  share->set_online_build(online);
  return Status::Ok();
}

// Puts the new .frm into the definition that stores it. For a table this is its own definition. For a
// partition it is the definition of the whole table, which is then added to `defs`.
void add_frm(std::string frm, std::vector<catalog::TableDef> *defs) {
  if (frm.empty()) return;
  catalog::TableDef &first = defs->front();
  if (!ah::is_partition(first.name)) {
    first.frm = std::move(frm);
    return;
  }
  const catalog::TablePtr whole =
      atoll::engine::running()->catalog()->find(first.database, ah::whole_table(first.name));
  if (!whole) return;
  defs->push_back(*whole);
  defs->back().frm = std::move(frm);
}

}  // namespace

namespace atoll::handler {

void announce_definition(const std::string &database, const std::string &table, std::string frm) {
  const atoll::MutexLock guard(announced.mutex);
  announced.frms[announced_key(database, table)] = std::move(frm);
}

}  // namespace atoll::handler

namespace {

Status give_family(AlterContext *context) {
  catalog::TableDef &def = context->altered.def;
  ATOLL_RETURN_IF_ERROR(
      atoll::engine::running()->database()->create_family(def.compression, &context->family));
  def.family_id = context->family->id();
  def.own_family = true;
  def.prefix = 0;
  return Status::Ok();
}

}  // namespace

namespace {

// Finds out what changes about constraints, and locks the parents of new ones whose rows will be checked.
// True: an error was raised.
bool plan_foreign_keys(AlterContext *context, TABLE *altered, const Alter_inplace_info *info) {
  if (ah::is_partition(context->before->name)) return false;
  const catalog::TableDef &after = context->altered.def;
  if (ah::plan_foreign_keys(altered, info, *context->before, after, &context->foreign_keys)) return true;
  return ah::must_check_rows(altered->in_use, info) &&
         ah::lock_parents(altered->in_use, after, context->foreign_keys.added);
}

}  // namespace

bool ha_atoll::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) {
  auto *context = new AlterContext(share_);
  info->handler_ctx = context;
  context->gains_numbers = ah::gained_numbers(altered, info) != nullptr;
  (void)take_announced(layout()->def());  // forgets the .frm that a failed ALTER may have left
  // Takes the definition from the catalog and not from the layout, because an ALTER that failed after the
  // layout was made has used up index ordinals.
  context->before = atoll::engine::running()->catalog()->find(layout()->def().id);
  if (!context->before)
    return fail_alter(table, Status(Code::kNotFound, "it was dropped meanwhile"), "looking it up");
  Status status = ah::alter_definition(*context->before, *layout(), altered, info, &context->altered);
  if (status.ok() && plan_foreign_keys(context, altered, info)) return true;
  if (status.ok() && context->altered.moves) status = give_family(context);
  if (status.ok())
    status =
        ah::build_layout(altered, std::make_shared<const catalog::TableDef>(context->altered.def),
                         context->family != nullptr ? context->family : layout()->family(), &context->layout);
  if (status.ok() && context->builds())
    status = context->begin_build(layout(), table_share->reclength, altered);
  return status.ok() ? false : fail_alter(table, status, "preparing the altered definition");
}

namespace {

// Replays the log of the online build until few records are left for finish(), because no statement may write
// the table while finish() runs.
Status catch_up(at::OnlineBuild *online) {
  constexpr uint64_t kFewRecords = 1000;  // replayed in some milliseconds
  constexpr int kRoundsMax = 20;          // rounds get shorter, unless writers are faster than the replay
  for (int round = 0; round < kRoundsMax; round++) {
    uint64_t records = 0;
    ATOLL_RETURN_IF_ERROR(online->replay(&records));
    if (records <= kFewRecords) break;
  }
  return Status::Ok();
}

bool report_build(const Status &status, TABLE *altered, size_t duplicate_index) {
  if (altered->in_use->is_error()) return true;  // a virtual column's expression has set the error
  if (status.code() == Code::kDuplicate && duplicate_index < altered->s->keys)
    print_keydup_error(altered, &altered->key_info[duplicate_index], MYF(0));
  else if (status.code() == Code::kInterrupted)
    my_error(ER_QUERY_INTERRUPTED, MYF(0));
  else
    return fail_alter(altered, status, "building an index");
  return true;
}

// Returns the contexts of all partitions; for a table that is not partitioned, its own.
std::vector<AlterContext *> contexts_of(const Alter_inplace_info *info) {
  std::vector<AlterContext *> contexts;
  if (info->group_commit_ctx == nullptr) return {static_cast<AlterContext *>(info->handler_ctx)};
  for (inplace_alter_handler_ctx **one = info->group_commit_ctx; *one != nullptr; one++)
    contexts.push_back(static_cast<AlterContext *>(*one));
  return contexts;
}

// Fills the new indexes of all `contexts`. The log is synced once for all of them, after all new indexes were
// stored as `building` and before the first entries are ingested; entries that go through the log are behind
// that note anyway. The bucket is waited for once, after the last ingestion. *duplicate_index: set after
// kDuplicate.
Status build_all(const std::vector<AlterContext *> &contexts, THD *thd, size_t *duplicate_index) {
  atoll::engine::Engine *running = atoll::engine::running();
  bool is_synced = false;
  const auto sync_once = [&is_synced, running]() {
    if (std::exchange(is_synced, true)) return Status::Ok();
    atoll::count_work(atoll::WorkKind::kLogSyncs);
    return running->database()->sync_wal();
  };
  const at::IndexBuild::Resources resources{running->database(), running->database(),
                                            running->settings().sort_memory_bytes(),
                                            running->statement_settings(thd).scan_threads, sync_once};
  std::unique_ptr<at::IndexBuild> last;  // the last build that has made entries
  for (AlterContext *one : contexts) {
    one->is_built = true;
    if (!one->builds()) continue;
    at::IndexBuild::Plan plan{one->former, one->layout, one->new_indexes, one->snapshot,
                              one->rekey ? &*one->rekey : nullptr};
    auto build = std::make_unique<at::IndexBuild>(std::move(plan), resources, &*one->view);
    const Status status = build->run();
    *duplicate_index = build->duplicate_index();
    ATOLL_RETURN_IF_ERROR(status);
    if (build->has_entries()) last = std::move(build);
  }
  if (last != nullptr) ATOLL_RETURN_IF_ERROR(last->wait_for_bucket());
  for (AlterContext *one : contexts)
    if (one->builds()) ATOLL_RETURN_IF_ERROR(catch_up(one->online.get()));
  return Status::Ok();
}

}  // namespace

// The server calls this for each partition. The call for the first one builds the indexes of all partitions.
bool ha_atoll::inplace_alter_table(TABLE *altered, Alter_inplace_info *info) {
  if (static_cast<AlterContext *>(info->handler_ctx)->is_built) return false;
  const std::vector<AlterContext *> contexts = contexts_of(info);
  const bool builds =
      std::any_of(contexts.begin(), contexts.end(), [](const AlterContext *one) { return one->builds(); });
  size_t duplicate_index = at::IndexBuild::kNoIndex;
  const Status status = builds ? build_all(contexts, ha_thd(), &duplicate_index) : Status::Ok();
  if (!status.ok()) return report_build(status, altered, duplicate_index);
  const AlterContext &first = *contexts.front();
  return ah::must_check_rows(ha_thd(), info) &&
         ah::refuse_orphans(ha_thd(), first.layout->def(), first.layout->family(), first.foreign_keys.added);
}

namespace {

// Drops from `def` what is needed only to read rows of older versions. Requires: all rows have been rewritten
// in the current version.
void forget_former_rows(catalog::TableDef *def, uint64_t readable_from) {
  def->readable_from.number = readable_from;
  def->former_place = {};
  def->versions.erase(def->versions.begin(), def->versions.end() - 1);
  def->defaults.clear();
}

// Notes in `def` where the old copies of the rows are. They stay unchanged in the shared family, for
// snapshots that are older than the move.
void keep_former_rows(const catalog::TableDef &before, catalog::TableDef *def, uint64_t readable_from) {
  def->former_place = {atoll::engine::running()->database()->find_family(before.family_id), before.prefix,
                       before.readable_from.number};
  def->readable_from.number = readable_from;
}

// Called after the definition is stored. If the mover has moved the table, a slow bucket gives only a warning
// in the log, because no user asked for the move.
Status wait_for_bucket_after_ddl() {
  Status status = atoll::engine::running()->gate().after_ddl();
  const bool waited_enough = status.code() == Code::kInterrupted || status.code() == Code::kUnavailable;
  if (!waited_enough || !ah::MoveOfOutgrown::is_running()) return status;
  atoll::log_warning("a table has moved to a family of its own: " + std::string(status.message()));
  return Status::Ok();
}

// Called when no statement can write the table any more. Puts the last logged changes into the new indexes.
// Returns true when it has reported an error. Older snapshots cannot use these indexes, because the indexes
// lack entries of rows that existed at the time of the snapshot.
bool finish_build(AlterContext *context, TABLE *altered, bool ignore) {
  if (!context->builds()) return false;
  THD *thd = altered->in_use;
  // Makes expressions of virtual columns fail as they do in inplace_alter_table(), for which the server sets
  // strict mode itself.
  const Abort_on_warning_instant_set strict(thd, !ignore && thd->is_strict_mode());
  const Status status = context->online->finish();
  if (status.code() == Code::kDuplicate) context->online->show_duplicate();
  if (!status.ok()) return report_build(status, altered, context->online->duplicate_index());
  const uint64_t readable_from = AlterContext::database()->newest_sequence();
  for (catalog::IndexDef &index : context->altered.def.indexes)
    if (index.ordinal >= context->before->next_ordinal) index.readable_from = readable_from;
  if (context->altered.moves && ah::MoveOfOutgrown::is_running())
    keep_former_rows(*context->before, &context->altered.def, readable_from);
  else if (context->rekey || context->altered.moves)
    forget_former_rows(&context->altered.def, readable_from);
  return false;
}

// Adds the AUTO_INCREMENT counter that the ALTER sets for the table, or the partition, of `context`. It is
// the value that the user gives, but not below the numbers in the table. Requires: no statement can write the
// table any more, and finish_build() is done. Errors: as a read; kInvalid (gained_numbers.h).
Status add_counter(const AlterContext &context, TABLE *altered, const Alter_inplace_info *info,
                   catalog::Counters *counters) {
  const bool is_given = (info->create_info->used_fields & HA_CREATE_USED_AUTO) != 0;
  if (altered->found_next_number_field == nullptr || altered->s->next_number_keypart != 0)
    return Status::Ok();
  bool may_stay = true;
  if (context.gains_numbers)
    ATOLL_RETURN_IF_ERROR(
        ah::numbers_may_stay(*context.layout, altered, altered->found_next_number_field, &may_stay));
  if (!may_stay)
    return Status(Code::kInvalid, "a row with the number 0 was written meanwhile; repeat the ALTER");
  if (!is_given && !context.gains_numbers) return Status::Ok();
  uint64_t largest = 0;
  ATOLL_RETURN_IF_ERROR(ah::largest_number(*context.layout, altered, &largest));
  (*counters)[context.altered.def.id] =
      std::max<uint64_t>(is_given ? info->create_info->auto_increment_value : 0, ah::number_after(largest));
  return Status::Ok();
}

// Takes over the counters that the ALTER has stored. A share whose counter is larger would raise the stored
// one when it is closed.
void set_counters(const std::vector<AlterContext *> &contexts, const catalog::Counters &counters) {
  for (const AlterContext *one : contexts)
    if (const auto counter = counters.find(one->altered.def.id); counter != counters.end())
      one->share->next_auto_increment = counter->second;
}

}  // namespace

// The server calls this once for all partitions to commit, but once for each partition to roll back.
bool ha_atoll::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit) {
  auto *context = static_cast<AlterContext *>(info->handler_ctx);
  if (context == nullptr) return false;
  catalog::Catalog *all = atoll::engine::running()->catalog();
  std::string frm = take_announced(layout()->def());
  if (!commit) {
    context->end_build();
    if (!context->before || !context->builds() || context->altered.moves) return false;
    catalog::TableDef before = *context->before;
    // The new indexes may still have entries, so no later index is allowed to get their ordinals.
    before.next_ordinal = context->altered.def.next_ordinal;
    // Not synced: as long as the log lacks this write, a start finds the indexes `building` and removes them.
    const Status status = all->update_unsynced(before);
    return status.ok() ? false : fail_alter(table, status, "taking back the altered definition");
  }
  const std::vector<AlterContext *> contexts = contexts_of(info);
  std::vector<catalog::TableDef> defs;
  catalog::Counters counters;
  Status status;
  for (AlterContext *one : contexts) {
    if (finish_build(one, altered, info->ignore)) return true;
    if (status.ok()) status = add_counter(*one, altered, info, &counters);
    defs.push_back(one->altered.def);
  }
  if (!status.ok()) return fail_alter(table, status, "setting the AUTO_INCREMENT counter");
  add_frm(std::move(frm), &defs);
  status = all->update(defs, counters, contexts.front()->foreign_keys);
  if (status.ok()) set_counters(contexts, counters);
  info->group_commit_ctx = nullptr;  // tells the server that all are committed
  for (AlterContext *one : contexts) {
    if (status.ok() && one->altered.moves && ah::MoveOfOutgrown::is_running())
      ah::MoveOfOutgrown::note_moved();
    one->end_build();
    // The destructor must not drop the family now. Even if the write failed, the catalog on disk may name it;
    // the next start finds out.
    one->family = nullptr;
  }
  if (status.ok()) status = wait_for_bucket_after_ddl();
  return status.ok() ? false : fail_alter(table, status, "storing the altered definition");
}
