// Catalog::add_clones().
#include <rocksdb/write_batch.h>

#include "base/clock.h"
#include "catalog/catalog_impl.h"

namespace atoll::catalog {

Status Catalog::add_clones(const std::vector<TableDef> &clones) {
  const MutexLock lock(impl_->change_mutex);
  std::vector<Impl::Arrival> stored;
  std::map<uint32_t, uint64_t> counters;
  std::map<uint32_t, std::string> statistics;
  rocksdb::WriteBatch batch;
  for (const TableDef &def : clones) {
    if (impl_->find(def.database, def.name))
      return Status(Code::kDuplicate,
                    "the table " + qualified_name(def.database, def.name) + " exists already");
    TableDef table = def;
    table.id = impl_->meta.next_id++;
    table.created_us = now_us();
    impl_->put_table(&batch, table);
    if (const uint64_t next = auto_increment(def.id); next != 0) {
      counters[table.id] = next;
      impl_->put(&batch, auto_increment_key(table.id), auto_increment_value(next));
    }
    statistics[table.id] = this->statistics(def.id);
    stored.push_back(Impl::arrival(table, nullptr));
  }
  impl_->put(&batch, meta_key(), encode(impl_->meta));
  uint64_t visible_from = 0;
  ATOLL_RETURN_IF_ERROR(impl_->write(&batch, true, &visible_from));
  for (Impl::Arrival &each : stored) {
    each.table->readable_from.number = visible_from;
    impl_->install(std::move(each));
  }
  for (const auto &[table_id, next] : counters) raise_auto_increment(table_id, next);
  for (auto &[table_id, blob] : statistics)
    if (!blob.empty()) set_statistics(table_id, std::move(blob));
  return Status::Ok();
}

}  // namespace atoll::catalog
