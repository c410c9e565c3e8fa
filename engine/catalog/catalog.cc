// The catalog in memory and its changes. Format of the records: record.h. Loading and repair:
// catalog_open.cc. Recovery from interrupted ALTERs, and renaming: the folder
// renaming. Constraints: foreign/references.cc.
#include "catalog/catalog.h"

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include "base/border/border.h"
#include "base/clock.h"
#include "catalog/catalog_impl.h"

namespace atoll::catalog {
namespace {

bool is_moved(const TableDef &former, const TableDef &now) {
  return former.family_id != now.family_id || former.prefix != now.prefix;
}

bool has_ordinal(const TableDef &table, uint16_t ordinal) {
  return std::any_of(table.indexes.begin(), table.indexes.end(),
                     [ordinal](const IndexDef &index) { return index.ordinal == ordinal; });
}

// Adds to `doomed` the key ranges that the new definition `now` does not use any more: those of dropped
// indexes, or the whole table if it has moved out of the shared family.
void add_left_behind(const TableDef &former, const TableDef &now, Doomed *doomed) {
  if (!is_moved(former, now)) {
    for (const IndexDef &index : former.indexes)
      if (!has_ordinal(now, index.ordinal)) doomed->ranges.push_back(index_range(former, index.ordinal));
  } else if (!former.own_family && !former.logical_only) {
    doomed->ranges.push_back(table_range(former));
    doomed->read_before = std::max(doomed->read_before, now.readable_from.number);
  }
}

// Returns the ranges sorted by family and start. Ranges that touch or overlap are merged into one.
std::vector<Doomed::Range> merged_ranges(const std::vector<Doomed> &all) {
  std::vector<Doomed::Range> ranges;
  for (const Doomed &doomed : all) ranges.insert(ranges.end(), doomed.ranges.begin(), doomed.ranges.end());
  std::sort(ranges.begin(), ranges.end(), [](const Doomed::Range &a, const Doomed::Range &b) {
    return std::tie(a.family_id, a.begin) < std::tie(b.family_id, b.begin);
  });
  std::vector<Doomed::Range> merged;
  for (Doomed::Range &range : ranges) {
    const bool touches =
        !merged.empty() && merged.back().family_id == range.family_id && range.begin <= merged.back().end;
    if (touches) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(std::move(range));
    }
  }
  return merged;
}

}  // namespace

bool SchemaVersion::operator==(const SchemaVersion &other) const {
  const auto same = [](const codec::PastColumn &a, const codec::PastColumn &b) {
    return a.id == b.id && a.kind == b.kind && a.length == b.length && a.nullable == b.nullable;
  };
  return version == other.version &&
         std::equal(columns.begin(), columns.end(), other.columns.begin(), other.columns.end(), same);
}

bool is_internal(std::string_view name) { return name.starts_with("#sql"); }

std::string_view whole_table(std::string_view name) {
  return name.substr(0, std::min(name.find("#P#"), name.find("#p#")));
}

bool is_partition(std::string_view name) { return whole_table(name).size() != name.size(); }

std::string qualified_name(std::string_view database, std::string_view name) {
  std::string text("`");
  return text.append(database).append("`.`").append(name).append("`");
}

Status no_such_table(std::string_view database, std::string_view name) {
  return Status(Code::kNotFound, "there is no table " + qualified_name(database, name) + " in the catalog");
}

Status exists_already(std::string_view database, std::string_view name) {
  return Status(Code::kDuplicate, "the table " + qualified_name(database, name) + " exists already");
}

// ---- Writing records, and changing the maps in memory -------------------------------------------

Status Catalog::Impl::write(rocksdb::WriteBatch *batch, bool sync, uint64_t *visible_from) {
  const Status status = rows->write_unlocked(batch, sync).with("writing the catalog");
  if (visible_from != nullptr) *visible_from = rows->catalog_family()->newest_sequence();
  return status;
}

void Catalog::Impl::put(rocksdb::WriteBatch *batch, const std::string &key, const std::string &value) {
  // Put() on a batch in memory fails only for a key or value of 4 GiB or more. No record is that large.
  (void)batch->Put(rows->catalog_family()->handle(), key, value);
}

void Catalog::Impl::remove(rocksdb::WriteBatch *batch, const std::string &key) {
  (void)batch->Delete(rows->catalog_family()->handle(), key);
}

void Catalog::Impl::put_table(rocksdb::WriteBatch *batch, const TableDef &table) {
  put(batch, table_key(RecordKind::kTable, table.id), encode(table));
}

void Catalog::Impl::put_doomed(rocksdb::WriteBatch *batch, Doomed *doomed) {
  pending.reserve(pending.size() + 1);  // so that the caller needs no memory to add `doomed` after the write
  doomed->number = meta.next_doomed++;
  put(batch, doomed_key(doomed->number), encode(*doomed));
  put(batch, meta_key(), encode(meta));
}

// Deletes the ranges, then their records. It does not hold change_mutex, because deleting can wait for the
// disk for long. That is safe, because no other thread deletes these ranges or writes to them.
Status Catalog::Impl::reclaim(const std::vector<Doomed> &all) {
  for (const Doomed::Range &range : merged_ranges(all)) {
    lsm::Family *family = rows->find_family(range.family_id);
    if (family == nullptr) continue;  // the range was deleted when its family was dropped
    ATOLL_RETURN_IF_ERROR(families->delete_range(family, range.begin, range.end));
  }
  rocksdb::WriteBatch batch;
  for (const Doomed &doomed : all) remove(&batch, doomed_key(doomed.number));
  return write(&batch, false);
}

TablePtr Catalog::Impl::find(std::string_view database_name, std::string_view name) const {
  const SharedLock lock(mutex);
  const auto it = by_name.find(name_key(database_name, name));
  return it == by_name.end() ? nullptr : it->second;
}

TablePtr Catalog::Impl::find(uint32_t table_id) const {
  const SharedLock lock(mutex);
  const auto it = by_id.find(table_id);
  return it == by_id.end() ? nullptr : it->second;
}

// Allocates what install() needs to put `table` into the maps. `former`: the definition that `table`
// replaces; nullptr: the table is new.
Catalog::Impl::Arrival Catalog::Impl::arrival(const TableDef &table, const TablePtr &former) {
  Arrival arrival;
  arrival.table = std::make_shared<TableDef>(table);
  arrival.by_name.emplace(name_key(table.database, table.name), arrival.table);
  arrival.by_id.emplace(table.id, arrival.table);
  arrival.references = references_of(table);
  if (!former) return arrival;
  arrival.former_name = name_key(former->database, former->name);
  arrival.former_references = references_of(*former);
  return arrival;
}

TablePtr Catalog::Impl::install(Arrival arrival) noexcept {
  const ExclusiveLock lock(mutex);
  by_name.erase(arrival.former_name);
  by_id.erase(arrival.table->id);
  for (const auto &reference : arrival.former_references) references.erase(reference);
  by_name.merge(arrival.by_name);
  by_id.merge(arrival.by_id);
  references.merge(arrival.references);
  ++generation;
  return arrival.table;
}

void Catalog::Impl::forget(uint32_t table_id, const std::string &name, const References &former) noexcept {
  const ExclusiveLock lock(mutex);
  for (const auto &reference : former) references.erase(reference);
  by_name.erase(name);
  by_id.erase(table_id);
  auto_increments.erase(table_id);
  statistics.erase(table_id);
  dirty_statistics.erase(table_id);
  ++generation;
}

// Drops a family that no table names any more. If memory runs out here, the next opening of the catalog drops
// the family.
void Catalog::Impl::drop_family(uint32_t family_id) noexcept {
  guarded_or_nothing([&] { families->drop_family(family_id); });
}

// ---- Finding, creating and changing tables ------------------------------------------------------

Catalog::Catalog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Catalog::~Catalog() = default;

TablePtr Catalog::find(std::string_view database, std::string_view name) const {
  return impl_->find(database, name);
}

TablePtr Catalog::find(uint32_t table_id) const { return impl_->find(table_id); }

std::vector<TablePtr> Catalog::list(std::string_view database) const {
  std::vector<TablePtr> tables;
  const SharedLock lock(impl_->mutex);
  if (database.empty()) {
    for (const auto &[key, table] : impl_->by_name) tables.push_back(table);
    return tables;
  }
  const std::string start = name_key(database, "");
  for (auto it = impl_->by_name.lower_bound(start); it != impl_->by_name.end(); ++it) {
    if (it->second->database != database) break;
    tables.push_back(it->second);
  }
  return tables;
}

uint64_t Catalog::generation() const {
  const SharedLock lock(impl_->mutex);
  return impl_->generation;
}

Status Catalog::create(TableDef *def, bool own_family) {
  if (impl_->find(def->database, def->name)) return exists_already(def->database, def->name);
  lsm::Family *family = impl_->rows->shared_family();
  const bool own = own_family && !def->logical_only;
  // The family is created before the row is written, because no row may name a family that does not exist
  // (CAT-2). change_mutex is not held for that, because create_family() can wait for the bucket.
  if (own) ATOLL_RETURN_IF_ERROR(impl_->families->create_family(def->compression, &family));

  Status status;
  {
    const MutexLock lock(impl_->change_mutex);
    status = impl_->find(def->database, def->name) ? exists_already(def->database, def->name)
                                                   : impl_->store_new(def, family, own);
  }
  // After a failed write the catalog's row may be on disk all the same, so the family must stay. The
  // next opening of the catalog gives the family up if no row names it.
  if (status.code() == Code::kDuplicate && own) impl_->families->drop_family(family->id());
  return status;
}

Status Catalog::Impl::store_new(TableDef *def, lsm::Family *family, bool own) {
  TableDef table = *def;
  ATOLL_RETURN_IF_ERROR(check_names(table, 0));
  table.id = meta.next_id++;
  table.own_family = own;
  table.family_id = table.logical_only ? 0 : family->id();
  table.prefix = own || table.logical_only ? 0 : table.id;
  if (table.created_us == 0) table.created_us = now_us();
  rocksdb::WriteBatch batch;
  put(&batch, meta_key(), encode(meta));
  put_table(&batch, table);
  Arrival stored = arrival(table, nullptr);
  ATOLL_RETURN_IF_ERROR(write(&batch, true, &table.readable_from.number));
  stored.table->readable_from.number = table.readable_from.number;
  install(std::move(stored));
  *def = std::move(table);
  return Status::Ok();
}

Status Catalog::put_partitioned(TableDef table) {
  table.logical_only = true;
  if (table.versions.empty()) table.versions.push_back({1, {}});
  return find(table.database, table.name) ? update(table) : create(&table, false);
}

Status Catalog::update(const std::vector<TableDef> &defs, const Counters &counters,
                       const ForeignKeyChanges &changes) {
  const MutexLock lock(impl_->change_mutex);
  std::vector<TableDef> changed;
  ATOLL_RETURN_IF_ERROR(impl_->with_changes(defs, changes, &changed));
  return impl_->update(changed, counters, true);
}

Status Catalog::update(const std::vector<TableDef> &defs) { return update(defs, {}); }

Status Catalog::update_unsynced(const TableDef &def) {
  const MutexLock lock(impl_->change_mutex);
  std::vector<TableDef> changed;
  ATOLL_RETURN_IF_ERROR(impl_->with_changes({def}, {}, &changed));
  return impl_->update(changed, {}, false);
}

Status Catalog::Impl::update(const std::vector<TableDef> &defs, const Counters &counters, bool sync) {
  Doomed doomed;
  std::vector<uint32_t> emptied;  // ids of families that tables have moved out of
  std::vector<Arrival> stored;
  rocksdb::WriteBatch batch;
  for (const TableDef &def : defs) {
    const TablePtr former = find(def.id);
    if (!former) return no_such_table(def.database, def.name);
    if (former->database != def.database || former->name != def.name)
      return Status(Code::kBug, "update() cannot rename " + qualified_name(former->database, former->name));
    add_left_behind(*former, def, &doomed);
    put_table(&batch, def);
    if (former->own_family && is_moved(*former, def)) emptied.push_back(former->family_id);
    stored.push_back(arrival(def, former));
  }
  if (!doomed.ranges.empty()) put_doomed(&batch, &doomed);
  put_counters(&batch, counters);
  Counters known = counters;
  ATOLL_RETURN_IF_ERROR(write(&batch, sync));
  for (Arrival &each : stored) install(std::move(each));
  install(std::move(known));
  for (const uint32_t family : emptied) drop_family(family);
  if (!doomed.ranges.empty()) pending.push_back(std::move(doomed));
  return Status::Ok();
}

std::vector<TablePtr> Catalog::with_partitions(std::string_view database, std::string_view whole) const {
  std::vector<TablePtr> tables;
  for (const TablePtr &table : list(database))
    if (whole_table(table->name) == whole) tables.push_back(table);
  return tables;
}

// Drops all the tables in one write.
Status Catalog::Impl::drop(const std::vector<TablePtr> &tables) {
  Doomed doomed;
  rocksdb::WriteBatch batch;
  std::vector<std::string> names;
  std::vector<References> former;
  for (const TablePtr &table : tables) {
    names.push_back(name_key(table->database, table->name));
    former.push_back(references_of(*table));
    for (const RecordKind kind : {RecordKind::kTable, RecordKind::kAutoIncrement, RecordKind::kStatistics})
      remove(&batch, table_key(kind, table->id));
    if (!table->own_family && !table->logical_only) doomed.ranges.push_back(table_range(*table));
  }
  if (!doomed.ranges.empty()) put_doomed(&batch, &doomed);
  ATOLL_RETURN_IF_ERROR(write(&batch, true));
  for (size_t i = 0; i < tables.size(); i++) {
    forget(tables[i]->id, names[i], former[i]);
    if (tables[i]->own_family) drop_family(tables[i]->family_id);
  }
  if (!doomed.ranges.empty()) pending.push_back(std::move(doomed));
  return Status::Ok();
}

Status Catalog::drop(std::string_view database, std::string_view name) {
  const MutexLock lock(impl_->change_mutex);
  const TablePtr table = impl_->find(database, name);
  if (!table) return no_such_table(database, name);
  return holds_drops && !is_internal(name) ? impl_->hold({table}) : impl_->drop({table});
}

Status Catalog::drop_partitioned(std::string_view database, std::string_view whole) {
  const MutexLock lock(impl_->change_mutex);
  const std::vector<TablePtr> tables = with_partitions(database, whole);
  if (tables.empty()) return no_such_table(database, whole);
  return holds_drops && !is_internal(whole) ? impl_->hold(tables) : impl_->drop(tables);
}

Status Catalog::truncate(std::string_view database, std::string_view name, TablePtr *out) {
  const TablePtr seen = impl_->find(database, name);
  if (!seen) return no_such_table(database, name);
  lsm::Family *family = nullptr;
  if (seen->own_family) ATOLL_RETURN_IF_ERROR(impl_->families->create_family(seen->compression, &family));

  const MutexLock lock(impl_->change_mutex);
  const TablePtr former = impl_->find(seen->id);
  // The caller holds the table exclusively, so it should still be there. If it was dropped or moved all the
  // same, the new family must be dropped too.
  if (!former || former->own_family != seen->own_family) {
    if (family != nullptr) impl_->families->drop_family(family->id());
    return no_such_table(database, name);
  }
  TableDef table = *former;
  if (table.logical_only) {
    *out = former;
    return Status::Ok();
  }
  return impl_->replace_data(former, std::move(table), family, out);
}

Status Catalog::move_to_own_family(uint32_t table_id, TablePtr *out) {
  const TablePtr seen = impl_->find(table_id);
  if (!seen) return Status(Code::kNotFound, "the table is not in the catalog");
  if (seen->own_family || seen->logical_only) {
    *out = seen;
    return Status::Ok();
  }
  lsm::Family *family = nullptr;
  ATOLL_RETURN_IF_ERROR(impl_->families->create_family(seen->compression, &family));
  const MutexLock lock(impl_->change_mutex);
  const TablePtr former = impl_->find(table_id);
  if (!former || former->own_family) {
    impl_->families->drop_family(family->id());
    return Status(Code::kNotFound, "the table was dropped or moved meanwhile");
  }
  return impl_->replace_data(former, *former, family, out);
}

// Stores `table`, which has the definition `former` now, as an empty table at a new place: in the new family
// `family`, which only this table uses, or, if `family` is nullptr, under a new prefix in the shared family.
Status Catalog::Impl::replace_data(const TablePtr &former, TableDef table, lsm::Family *family,
                                   TablePtr *out) {
  Doomed doomed;
  rocksdb::WriteBatch batch;
  if (family != nullptr) {
    table.own_family = true;
    table.family_id = family->id();
    table.prefix = 0;
  } else {
    table.prefix = meta.next_id++;
  }
  table.former_place = {};
  if (former->own_family) {
    put(&batch, meta_key(), encode(meta));
  } else {
    doomed.ranges.push_back(table_range(*former));
    put_doomed(&batch, &doomed);
  }
  put_table(&batch, table);
  remove(&batch, table_key(RecordKind::kAutoIncrement, table.id));
  remove(&batch, table_key(RecordKind::kStatistics, table.id));
  Arrival stored = arrival(table, former);
  ATOLL_RETURN_IF_ERROR(write(&batch, true, &stored.table->readable_from.number));
  {
    const ExclusiveLock lock(mutex);
    auto_increments.erase(table.id);
    statistics.erase(table.id);
    dirty_statistics.erase(table.id);
  }
  *out = install(std::move(stored));
  if (former->own_family) drop_family(former->family_id);
  if (!doomed.ranges.empty()) pending.push_back(std::move(doomed));
  return Status::Ok();
}

// The ranges stay in `pending` until they are deleted, because dropped_indexes() must find them there: a
// clone made meanwhile gets some of their entries.
Status Catalog::reclaim() {
  std::vector<Doomed> taken;
  {
    const MutexLock lock(impl_->change_mutex);
    if (impl_->pending.empty()) return Status::Ok();
    const uint64_t oldest = impl_->rows->oldest_snapshot();
    std::copy_if(impl_->pending.begin(), impl_->pending.end(), std::back_inserter(taken),
                 [oldest](const Doomed &doomed) { return oldest >= doomed.read_before; });
  }
  if (taken.empty()) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(impl_->reclaim(taken));
  std::set<uint64_t> gone;
  for (const Doomed &doomed : taken) gone.insert(doomed.number);
  const MutexLock lock(impl_->change_mutex);
  std::erase_if(impl_->pending, [&gone](const Doomed &doomed) { return gone.contains(doomed.number); });
  return Status::Ok();
}

bool Catalog::is_reclaimed() const {
  const MutexLock lock(impl_->change_mutex);
  return impl_->pending.empty();
}

}  // namespace atoll::catalog
