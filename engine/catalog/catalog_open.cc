// Loads the catalog, and repairs it after a crash between two steps of a change.
#include <rocksdb/iterator.h>

#include <algorithm>

#include "catalog/catalog_impl.h"

namespace atoll::catalog {

Status Catalog::open(lsm::Rows *rows, lsm::Families *families, std::unique_ptr<Catalog> *out) {
  auto impl = std::make_unique<Impl>();
  impl->rows = rows;
  impl->families = families;
  ATOLL_RETURN_IF_ERROR(impl->load(rows->catalog_family()).with("loading the catalog"));
  ATOLL_RETURN_IF_ERROR(impl->check().with("loading the catalog"));
  ATOLL_RETURN_IF_ERROR(impl->repair().with("repairing the catalog"));
  out->reset(new Catalog(std::move(impl)));
  return Status::Ok();
}

Status Catalog::read(lsm::Family *catalog, std::string_view database, PastSchema *out) {
  Impl impl;
  const MutexLock change(impl.change_mutex);  // both only for the static thread analysis:
  const ExclusiveLock lock(impl.mutex);       // no other thread knows `impl`
  ATOLL_RETURN_IF_ERROR(impl.load(catalog).with("reading the catalog of that time"));
  for (const auto &[key, table] : impl.by_name) {
    if (table->database != database || is_internal(table->name)) continue;
    out->tables.push_back(table);
    out->belongings[table->id] = {dropped_indexes(*table, impl.pending), impl.auto_increments[table->id],
                                  impl.statistics[table->id]};
  }
  const auto known = impl.databases.find(std::string(database));
  if (known != impl.databases.end()) out->options = known->second;
  out->masking = impl.masking;
  if (!out->tables.empty()) return Status::Ok();
  return Status(Code::kNotFound, "there was no ATOLL table in it");
}

Status Catalog::open_past(lsm::Family *catalog, std::unique_ptr<Catalog> *out) {
  auto impl = std::make_unique<Impl>();
  ATOLL_RETURN_IF_ERROR(impl->load(catalog).with("reading the catalog of that state"));
  impl->index_references();
  out->reset(new Catalog(std::move(impl)));
  return Status::Ok();
}

Status Catalog::Impl::load(lsm::Family *catalog) {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.total_order_seek = true;
  const std::unique_ptr<rocksdb::Iterator> rows = catalog->iterator(options);
  for (rows->SeekToFirst(); rows->Valid(); rows->Next())
    ATOLL_RETURN_IF_ERROR(load_record(rows->key().ToStringView(), rows->value().ToStringView()));
  return lsm::from_rocksdb(rows->status());
}

Status Catalog::Impl::load_record(std::string_view key, std::string_view value) {
  if (key.empty()) return Status(Code::kCorruption, "a record without a key");
  switch (static_cast<RecordKind>(key[0])) {
    case RecordKind::kMeta:
      return decode(value, &meta).with("the counters");
    case RecordKind::kTable:
      return load_table(key, value);
    case RecordKind::kAutoIncrement:
    case RecordKind::kStatistics:
      return load_table_value(static_cast<RecordKind>(key[0]), key, value);
    case RecordKind::kDatabase:
      return decode_blob(value, &databases[std::string(key.substr(1))])
          .with("the database `" + std::string(key.substr(1)) + "`");
    case RecordKind::kSideFile: {
      SideFile file;
      ATOLL_RETURN_IF_ERROR(parse_side_file_key(key, &file.database, &file.file_name));
      ATOLL_RETURN_IF_ERROR(
          decode_blob(value, &file.content).with("the file " + file.database + "/" + file.file_name));
      side_files[name_key(file.database, file.file_name)] = std::move(file);
      return Status::Ok();
    }
    case RecordKind::kMasked:
      return decode_blob(value, &masking.done_in).with("the note that rows were masked");
    case RecordKind::kMaskingBegun:
      return decode_blob(value, &masking.begun_in).with("the note that rows are being masked");
    case RecordKind::kDoomed: {
      Doomed doomed;
      ATOLL_RETURN_IF_ERROR(parse_doomed_key(key, &doomed.number));
      ATOLL_RETURN_IF_ERROR(decode(value, &doomed).with("a range to delete"));
      pending.push_back(std::move(doomed));
      return Status::Ok();
    }
  }
  return Status(Code::kCorruption, "a record of unknown kind (written by a newer release?)");
}

Status Catalog::Impl::load_table(std::string_view key, std::string_view value) {
  uint32_t id = 0;
  ATOLL_RETURN_IF_ERROR(parse_table_key(key, &id));
  TableDef table;
  const Status status = decode(value, &table);
  if (!status.ok()) return status.with("the table with id " + std::to_string(id));
  const std::string name = qualified_name(table.database, table.name);
  if (table.id != id)
    return Status(Code::kCorruption, "the record of table " + name + " is stored under another id");
  const auto fresh = std::make_shared<const TableDef>(std::move(table));
  if (!by_name.emplace(name_key(fresh->database, fresh->name), fresh).second)
    return Status(Code::kCorruption, "two records name the table " + name);
  by_id[id] = fresh;
  return Status::Ok();
}

Status Catalog::Impl::load_table_value(RecordKind kind, std::string_view key, std::string_view value) {
  uint32_t id = 0;
  ATOLL_RETURN_IF_ERROR(parse_table_key(key, &id));
  const std::string owner = "the table with id " + std::to_string(id);
  if (kind == RecordKind::kAutoIncrement)
    return decode_number(value, &auto_increments[id]).with("the AUTO_INCREMENT value of " + owner);
  // Statistics only help the optimizer, so a broken record is dropped and is no error.
  if (!decode_blob(value, &statistics[id]).ok()) statistics.erase(id);
  return Status::Ok();
}

// Checks that the records agree with each other, and with the families of the database. Errors: kCorruption.
Status Catalog::Impl::check() {
  for (const auto &[id, table] : by_id) {
    const std::string name = qualified_name(table->database, table->name);
    if (id == 0 || id >= meta.next_id || table->prefix >= meta.next_id)
      return Status(Code::kCorruption, "the table " + name + " has an id or prefix that was never given out");
    if (table->logical_only) continue;
    // Without its family the table would look empty, so the catalog refuses to open.
    if (rows->find_family(table->family_id) == nullptr)
      return Status(Code::kCorruption, "the table " + name + " lives in column family " +
                                           std::to_string(table->family_id) +
                                           ", which the database does not have");
    if (table->own_family ? table->prefix != 0 : table->prefix == 0)
      return Status(Code::kCorruption, "the table " + name + " has a wrong key prefix");
  }
  for (const Doomed &doomed : pending)
    if (doomed.number >= meta.next_doomed)
      return Status(Code::kCorruption, "a range to delete has a number that was never given out");
  return Status::Ok();
}

// Removes AUTO_INCREMENT values and statistics of tables that the catalog does not have. They were written by
// a transaction that committed after its table was dropped.
void Catalog::Impl::remove_orphans(rocksdb::WriteBatch *batch) {
  const auto remove_from = [&](auto *map, RecordKind kind) {
    std::erase_if(*map, [&](const auto &entry) ATOLL_UNCHECKED_THREADS {
      if (by_id.contains(entry.first)) return false;
      remove(batch, table_key(kind, entry.first));
      return true;
    });
  };
  remove_from(&auto_increments, RecordKind::kAutoIncrement);
  remove_from(&statistics, RecordKind::kStatistics);
}

// Removes indexes whose build did not finish from the definitions of their tables, and puts the key ranges of
// these indexes into `pending`, so that they are deleted.
Status Catalog::Impl::drop_half_built(rocksdb::WriteBatch *batch) {
  for (auto &[id, table] : by_id) {
    const auto is_building = [](const IndexDef &index) { return index.building; };
    if (std::none_of(table->indexes.begin(), table->indexes.end(), is_building)) continue;
    if (is_building(table->indexes.front()))
      return Status(Code::kCorruption, "the primary key of table " +
                                           qualified_name(table->database, table->name) +
                                           " is marked as half built");
    TableDef whole = *table;
    Doomed doomed;
    for (const IndexDef &index : whole.indexes)
      if (index.building) doomed.ranges.push_back(index_range(whole, index.ordinal));
    std::erase_if(whole.indexes, is_building);
    put_table(batch, whole);
    put_doomed(batch, &doomed);
    pending.push_back(std::move(doomed));
    table = std::make_shared<const TableDef>(std::move(whole));
    by_name[name_key(table->database, table->name)] = table;
  }
  return Status::Ok();
}

// Gives partitions their former names back when a crash interrupted a RENAME. The server renames the
// partitions of a table one by one, and the table as a whole last. After a crash in between, the server's DDL
// log cannot rename the partitions back, because it derives their names from the name of the whole table.
void Catalog::Impl::put_back_partitions(rocksdb::WriteBatch *batch) {
  for (auto &[id, table] : by_id) {
    if (!is_partition(table->name) || table->former_name.empty() || is_held_drop(table->name)) continue;
    if (by_name.contains(name_key(table->database, whole_table(table->name)))) continue;
    TableDef back = *table;
    const size_t slash = table->former_name.find('/');
    if (slash != std::string::npos) back.database = table->former_name.substr(0, slash);
    back.name = table->former_name.substr(slash == std::string::npos ? 0 : slash + 1);
    back.former_name.clear();
    if (!is_partition(back.name) || !by_name.contains(name_key(back.database, whole_table(back.name))) ||
        by_name.contains(name_key(back.database, back.name)))
      continue;
    put_table(batch, back);
    by_name.erase(name_key(table->database, table->name));
    table = std::make_shared<const TableDef>(std::move(back));
    by_name[name_key(table->database, table->name)] = table;
  }
}

Status Catalog::Impl::repair() {
  rocksdb::WriteBatch batch;
  remove_orphans(&batch);
  put_back_partitions(&batch);
  ATOLL_RETURN_IF_ERROR(drop_half_built(&batch));
  if (batch.Count() > 0) ATOLL_RETURN_IF_ERROR(write(&batch, true));
  std::set<uint32_t> known;
  for (const auto &[id, table] : by_id)
    if (table->own_family) known.insert(table->family_id);
  families->reconcile_families([&](uint32_t id) { return known.contains(id); });
  // Ranges that cannot be deleted now, because the bucket or the disk fails, stay in `pending`. The
  // background thread tries again, because it calls Catalog::reclaim() each second.
  if (!pending.empty() && reclaim(pending).ok()) pending.clear();
  index_references();
  return Status::Ok();
}

}  // namespace atoll::catalog
