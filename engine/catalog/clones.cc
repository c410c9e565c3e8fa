// Clones of tables: reserves key prefixes for their rows in the shared family, and stores their definitions.
#include <rocksdb/write_batch.h>

#include <algorithm>

#include "base/border/border.h"
#include "base/clock.h"
#include "catalog/catalog_impl.h"

namespace atoll::catalog {
namespace {

Doomed doomed_of(const Place &place, const lsm::Family &shared) {
  TableDef table;
  table.family_id = shared.id();
  table.prefix = place.prefix;
  return {place.doomed, {table_range(table)}, 0};
}

}  // namespace

Status Catalog::reserve(size_t count, std::vector<Place> *places) {
  const MutexLock lock(impl_->change_mutex);
  rocksdb::WriteBatch batch;
  places->clear();
  for (size_t i = 0; i < count; i++) {
    places->push_back({impl_->meta.next_id++, impl_->meta.next_doomed++});
    impl_->put(&batch, doomed_key(places->back().doomed),
               encode(doomed_of(places->back(), *impl_->rows->shared_family())));
  }
  impl_->put(&batch, meta_key(), encode(impl_->meta));
  return impl_->write(&batch, true);
}

Belongings Catalog::belongings(const TableDef &table) const {
  Belongings found{{}, auto_increment(table.id), statistics(table.id)};
  const MutexLock lock(impl_->change_mutex);
  found.dropped_indexes = dropped_indexes(table, impl_->pending);
  return found;
}

std::vector<uint16_t> dropped_indexes(const TableDef &table, const std::vector<Doomed> &pending) {
  std::vector<uint16_t> ordinals;
  if (table.logical_only) return ordinals;
  const auto is_doomed = [&](const Doomed::Range &range) {
    return std::any_of(pending.begin(), pending.end(), [&](const Doomed &doomed) {
      return std::find(doomed.ranges.begin(), doomed.ranges.end(), range) != doomed.ranges.end();
    });
  };
  for (uint16_t ordinal = 1; ordinal < table.next_ordinal; ordinal++)
    if (is_doomed(index_range(table, ordinal))) ordinals.push_back(ordinal);
  for (const IndexDef &index : table.indexes)
    if (index.building) ordinals.push_back(index.ordinal);
  return ordinals;
}

// Puts the rows at these places into `pending`, so that reclaim() deletes them. If memory runs out here, the
// next opening of the catalog finds the records that reserve() wrote, and deletes the rows.
void Catalog::give_up(const std::vector<Place> &places) noexcept {
  guarded_or_nothing([&] {
    const MutexLock lock(impl_->change_mutex);
    for (const Place &place : places)
      impl_->pending.push_back(doomed_of(place, *impl_->rows->shared_family()));
  });
}

Status Catalog::add_clones(const std::vector<Clone> &clones) {
  const MutexLock lock(impl_->change_mutex);
  std::vector<Impl::Arrival> stored;
  Counters counters;
  std::map<uint32_t, std::string> statistics;
  std::set<uint32_t> unwritten;
  rocksdb::WriteBatch batch;
  Doomed doomed;
  for (const auto &[def, place, belongings] : clones) {
    if (impl_->find(def.database, def.name)) return exists_already(def.database, def.name);
    TableDef table = def;
    ATOLL_RETURN_IF_ERROR(impl_->check_names(table, 0));
    table.id = place.prefix != 0 ? place.prefix : impl_->meta.next_id++;
    table.prefix = place.prefix;
    if (place.prefix != 0) impl_->remove(&batch, doomed_key(place.doomed));
    table.created_us = now_us();
    impl_->put_table(&batch, table);
    for (const uint16_t ordinal : belongings.dropped_indexes)
      doomed.ranges.push_back(index_range(table, ordinal));
    if (const uint64_t next = belongings.auto_increment; next != 0) {
      counters[table.id] = next;
      impl_->put(&batch, auto_increment_key(table.id), auto_increment_value(next));
    }
    if (!belongings.statistics.empty()) {
      statistics[table.id] = belongings.statistics;
      unwritten.insert(table.id);
    }
    stored.push_back(Impl::arrival(table, nullptr));
  }
  impl_->put(&batch, meta_key(), encode(impl_->meta));
  if (!doomed.ranges.empty()) impl_->put_doomed(&batch, &doomed);
  uint64_t visible_from = 0;
  ATOLL_RETURN_IF_ERROR(impl_->write(&batch, true, &visible_from));
  for (Impl::Arrival &each : stored) {
    each.table->readable_from.number = visible_from;
    impl_->install(std::move(each));
  }
  // The rest allocates no memory, because put_doomed() has reserved room in `pending`. If it could throw, the
  // maps would lack what is already on disk.
  if (!doomed.ranges.empty()) impl_->pending.push_back(std::move(doomed));
  const ExclusiveLock values(impl_->mutex);
  impl_->auto_increments.merge(counters);
  impl_->statistics.merge(statistics);
  impl_->dirty_statistics.merge(unwritten);
  return Status::Ok();
}

}  // namespace atoll::catalog
