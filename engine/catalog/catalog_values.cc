// The values of the catalog besides definitions of tables: AUTO_INCREMENT counters, statistics, databases,
// side files, and the records about the statements of atoll_mask_file.
#include <algorithm>

#include "catalog/catalog_impl.h"

namespace atoll::catalog {

// ---- AUTO_INCREMENT -----------------------------------------------------------------------------

uint64_t Catalog::auto_increment(uint32_t table_id) const {
  const SharedLock lock(impl_->mutex);
  const auto it = impl_->auto_increments.find(table_id);
  return it == impl_->auto_increments.end() ? 0 : it->second;
}

std::string Catalog::auto_increment_key(uint32_t table_id) {
  return table_key(RecordKind::kAutoIncrement, table_id);
}

std::string Catalog::auto_increment_value(uint64_t next) { return encode_number(next); }

void Catalog::Impl::put_counters(rocksdb::WriteBatch *batch, const Counters &counters) {
  for (const auto &[table_id, next] : counters)
    put(batch, auto_increment_key(table_id), auto_increment_value(next));
}

// Allocates nothing, because it is called after the counters are on disk.
void Catalog::Impl::install(Counters counters) noexcept {
  const ExclusiveLock lock(mutex);
  counters.merge(auto_increments);
  auto_increments.swap(counters);
}

void Catalog::raise_auto_increment(uint32_t table_id, uint64_t next) {
  const ExclusiveLock lock(impl_->mutex);
  if (!impl_->by_id.contains(table_id)) return;
  uint64_t &stored = impl_->auto_increments[table_id];
  stored = std::max(stored, next);
}

Status Catalog::set_auto_increment(uint32_t table_id, uint64_t next) {
  const MutexLock change(impl_->change_mutex);
  if (!impl_->find(table_id)) return Status(Code::kNotFound, "the table is not in the catalog");
  rocksdb::WriteBatch batch;
  impl_->put(&batch, auto_increment_key(table_id), auto_increment_value(next));
  ATOLL_RETURN_IF_ERROR(impl_->write(&batch, true));
  const ExclusiveLock lock(impl_->mutex);
  impl_->auto_increments[table_id] = next;
  return Status::Ok();
}

// ---- Statistics ---------------------------------------------------------------------------------

void Catalog::set_statistics(uint32_t table_id, std::string blob) {
  const ExclusiveLock lock(impl_->mutex);
  if (!impl_->by_id.contains(table_id)) return;
  std::string &stored = impl_->statistics[table_id];
  if (stored == blob) return;
  stored = std::move(blob);
  impl_->dirty_statistics.insert(table_id);
}

std::string Catalog::statistics(uint32_t table_id) const {
  const SharedLock lock(impl_->mutex);
  const auto it = impl_->statistics.find(table_id);
  return it == impl_->statistics.end() ? std::string() : it->second;
}

Status Catalog::write_statistics() {
  const MutexLock change(impl_->change_mutex);
  rocksdb::WriteBatch batch;
  {
    const ExclusiveLock lock(impl_->mutex);
    for (const uint32_t id : impl_->dirty_statistics)
      impl_->put(&batch, table_key(RecordKind::kStatistics, id), encode_blob(impl_->statistics[id]));
    impl_->dirty_statistics.clear();
  }
  if (batch.Count() == 0) return Status::Ok();
  return impl_->write(&batch, false);
}

// ---- Databases and side files -------------------------------------------------------------------

Status Catalog::put_database(const DatabaseDef &def) {
  const MutexLock change(impl_->change_mutex);
  {
    const SharedLock lock(impl_->mutex);
    const auto it = impl_->databases.find(def.name);
    if (it != impl_->databases.end() && it->second == def.options) return Status::Ok();
  }
  return impl_->put_database(def);
}

Status Catalog::keep_database(const std::string &name) {
  const MutexLock change(impl_->change_mutex);
  {
    const SharedLock lock(impl_->mutex);
    if (impl_->databases.contains(name)) return Status::Ok();
  }
  return impl_->put_database({name, ""});
}

Status Catalog::Impl::put_database(const DatabaseDef &def) {
  rocksdb::WriteBatch batch;
  put(&batch, database_key(def.name), encode_blob(def.options));
  ATOLL_RETURN_IF_ERROR(write(&batch, true));
  const ExclusiveLock lock(mutex);
  databases[def.name] = def.options;
  return Status::Ok();
}

Status Catalog::drop_database(std::string_view name) {
  const MutexLock change(impl_->change_mutex);
  const std::string database(name);
  const std::vector<TablePtr> aside = tables_aside(database);
  if (!aside.empty()) ATOLL_RETURN_IF_ERROR(impl_->drop(aside));
  rocksdb::WriteBatch batch;
  {
    const SharedLock lock(impl_->mutex);
    if (impl_->databases.contains(database)) impl_->remove(&batch, database_key(database));
    for (const auto &[key, file] : impl_->side_files)
      if (file.database == database) impl_->remove(&batch, side_file_key(file.database, file.file_name));
  }
  if (batch.Count() == 0) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(impl_->write(&batch, true));
  const ExclusiveLock lock(impl_->mutex);
  impl_->databases.erase(database);
  std::erase_if(impl_->side_files, [&](const auto &entry) { return entry.second.database == database; });
  return Status::Ok();
}

std::vector<DatabaseDef> Catalog::databases() const {
  const SharedLock lock(impl_->mutex);
  std::vector<DatabaseDef> all;
  for (const auto &[name, options] : impl_->databases) all.push_back({name, options});
  return all;
}

Status Catalog::put_side_file(const SideFile &file) {
  const MutexLock change(impl_->change_mutex);
  const std::string map_key = name_key(file.database, file.file_name);
  {
    const SharedLock lock(impl_->mutex);
    const auto it = impl_->side_files.find(map_key);
    const bool is_stored = it != impl_->side_files.end();
    if (is_stored ? it->second == file : file.content.empty()) return Status::Ok();
  }
  rocksdb::WriteBatch batch;
  const std::string key = side_file_key(file.database, file.file_name);
  if (file.content.empty()) {
    impl_->remove(&batch, key);
  } else {
    impl_->put(&batch, key, encode_blob(file.content));
  }
  ATOLL_RETURN_IF_ERROR(impl_->write(&batch, true));
  const ExclusiveLock lock(impl_->mutex);
  if (file.content.empty()) {
    impl_->side_files.erase(map_key);
  } else {
    impl_->side_files[map_key] = file;
  }
  return Status::Ok();
}

std::vector<SideFile> Catalog::side_files() const {
  const SharedLock lock(impl_->mutex);
  std::vector<SideFile> all;
  for (const auto &[key, file] : impl_->side_files) all.push_back(file);
  return all;
}

// ---- Masking ------------------------------------------------------------------------------------

MaskingRecord Catalog::masking() const {
  const SharedLock lock(impl_->mutex);
  return impl_->masking;
}

Status Catalog::begin_masking(const std::string &uuid) {
  const MutexLock change(impl_->change_mutex);
  rocksdb::WriteBatch batch;
  impl_->put(&batch, masking_begun_key(), encode_blob(uuid));
  ATOLL_RETURN_IF_ERROR(impl_->write(&batch, true));
  const ExclusiveLock lock(impl_->mutex);
  impl_->masking.begun_in = uuid;
  return Status::Ok();
}

Status Catalog::end_masking(const std::string &uuid) {
  const MutexLock change(impl_->change_mutex);
  rocksdb::WriteBatch batch;
  impl_->put(&batch, masked_key(), encode_blob(uuid));
  impl_->remove(&batch, masking_begun_key());
  ATOLL_RETURN_IF_ERROR(impl_->write(&batch, true));
  const ExclusiveLock lock(impl_->mutex);
  impl_->masking = {uuid, ""};
  return Status::Ok();
}

}  // namespace atoll::catalog
