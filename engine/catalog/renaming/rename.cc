// Catalog: renames tables, alone or with all their partitions.
#include <rocksdb/write_batch.h>

#include "catalog/catalog_impl.h"

namespace atoll::catalog {
namespace {

// Whether the server gives this name to the new table or partition into which an ALTER copies rows. Source:
// MariaDB 10.11.18, sql/sql_table.cc (mysql_alter_table), sql/ha_partition.cc (change_partitions).
bool is_copy(std::string_view name) {
  return name.starts_with("#sql-alter") || name.find("#TMP#") != std::string_view::npos;
}

// Returns the old name that the definition of a renamed table keeps for the recovery after a crash. Empty:
// recovery needs no old name, as for most tables.
std::string former_name(const TableDef &table, std::string_view new_database, std::string_view new_name) {
  if (is_internal(new_name)) return table.name;
  const bool partitions = is_partition(table.name) && is_partition(new_name);
  if (!partitions && !table.logical_only) return {};
  if (whole_table(table.name) == whole_table(new_name) && table.database == new_database) return {};
  return name_key(table.database, table.name);
}

}  // namespace

// Renames all the tables in one write.
Status Catalog::Impl::rename(const std::vector<Renaming> &renamings) {
  rocksdb::WriteBatch batch;
  std::vector<Arrival> renamed;
  std::vector<TableDef> children;
  for (const Renaming &renaming : renamings) {
    if (find(renaming.database, renaming.name)) return exists_already(renaming.database, renaming.name);
    TableDef table = *renaming.table;
    table.former_name = former_name(table, renaming.database, renaming.name);
    // EXCHANGE PARTITION allows differences that change no row, so the next open describes the table anew.
    if (is_partition(table.name) != is_partition(renaming.name)) table.description = {};
    table.database = renaming.database;
    table.name = renaming.name;
    ATOLL_RETURN_IF_ERROR(rename_references(renaming, &table, &children));
    put_table(&batch, table);
    renamed.push_back(arrival(table, renaming.table));
  }
  for (const TableDef &child : children) {
    put_table(&batch, child);
    renamed.push_back(arrival(child, find(child.id)));
  }
  uint64_t visible_from = 0;
  ATOLL_RETURN_IF_ERROR(write(&batch, true, &visible_from));
  for (size_t i = 0; i < renamed.size(); i++) {
    if (i < renamings.size() && is_copy(renamings[i].table->name))
      renamed[i].table->readable_from.number = visible_from;
    install(std::move(renamed[i]));
  }
  return Status::Ok();
}

// Renames the tables to internal names in one write. A table that was held earlier under one of these names
// is dropped before: the server has made another table of its name since.
Status Catalog::Impl::hold(const std::vector<TablePtr> &tables) {
  std::vector<Renaming> renamings;
  std::vector<TablePtr> earlier;
  for (const TablePtr &table : tables) {
    renamings.push_back({table, table->database, std::string(kHeldDropPrefix) + table->name});
    if (TablePtr held = find(table->database, renamings.back().name)) earlier.push_back(std::move(held));
  }
  if (!earlier.empty()) ATOLL_RETURN_IF_ERROR(drop(earlier));
  return rename(renamings);
}

Status Catalog::rename(std::string_view database, std::string_view name, std::string_view new_database,
                       std::string_view new_name, const RenamedReferences &references) {
  const MutexLock lock(impl_->change_mutex);
  const TablePtr table = impl_->find(database, name);
  if (!table) return no_such_table(database, name);
  return impl_->rename({{table, std::string(new_database), std::string(new_name), references}});
}

Status Catalog::rename_partitioned(std::string_view database, std::string_view whole,
                                   std::string_view new_database, std::string_view new_whole) {
  const MutexLock lock(impl_->change_mutex);
  std::vector<Impl::Renaming> renamings;
  for (const TablePtr &table : with_partitions(database, whole)) {
    std::string new_name = std::string(new_whole) + table->name.substr(whole.size());
    renamings.push_back({table, std::string(new_database), std::move(new_name)});
  }
  return renamings.empty() ? no_such_table(database, whole) : impl_->rename(renamings);
}

}  // namespace atoll::catalog
