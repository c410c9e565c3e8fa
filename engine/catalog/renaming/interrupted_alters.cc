// Catalog::finish_interrupted_alters(): what becomes of the tables of statements that
// a crash interrupted.
#include "catalog/catalog_impl.h"

namespace atoll::catalog {
bool is_changing_databases(std::string_view name) {
  return name.starts_with(kGivenPrefix) || name.starts_with(kTakenPrefix);
}

bool is_held_drop(std::string_view name) { return name.starts_with(kHeldDropPrefix); }

Status Catalog::finish_interrupted_alters(const FateOf &fate, FinishedAlters *done) {
  Status first_failure;
  const auto note = [&](const Status &status) {
    if (first_failure.ok()) first_failure = status;
  };
  // The first loop gives old tables their former names back. It must run first, because the second loop drops
  // tables that still have internal names.
  for (const TablePtr &table : tables_aside(""))
    if (is_nameless(*table) && !is_changing_databases(table->name)) note(finish_alter(*table, fate, done));
  // A table named #sqlx- is not dropped. Either an interrupted EXCHANGE PARTITION has given it this name, and
  // its rows are in no other table; or keep() has given it this name.
  for (const TablePtr &table : tables_aside(""))
    if (find(table->id) == table && !is_nameless(*table) && table->name.starts_with("#sql-"))
      note(drop_aside(*table, done));
  return first_failure;
}

std::vector<TablePtr> Catalog::tables_aside(std::string_view database) const {
  std::vector<TablePtr> tables = list(database);
  std::erase_if(tables, [](const TablePtr &table) { return !is_internal(table->name); });
  return tables;
}

// Whether the table had an ordinary name (not an internal one) before, and no table of the catalog has that
// name now.
bool Catalog::is_nameless(const TableDef &table) const {
  const std::string &former = table.former_name;
  return !former.empty() && !is_internal(former) && !find(table.database, former);
}

Status Catalog::finish_alter(const TableDef &table, const FateOf &fate, FinishedAlters *done) {
  const TablePtr now = find(table.id);
  if (!now || now->name != table.name) return Status::Ok();  // done together with its whole table
  if (is_partition(table.name) && find(table.database, whole_table(table.name)))
    return Status::Ok();  // the partition is handled together with its whole table
  if (find(table.database, whole_table(table.former_name)) && !is_held_drop(table.name))
    return put_back(table, done);
  switch (fate(table)) {
    case Fate::kPutBack:
      return put_back(table, done);
    case Fate::kKeep:
      return keep(table, done);
    case Fate::kDrop:
      return drop_aside(table, done);
  }
  return Status::Ok();
}

// Renames the table to #sqlx-.... finish_interrupted_alters() drops no table with such a name, neither at
// this start of the server nor at a later one.
Status Catalog::keep(const TableDef &table, FinishedAlters *done) {
  if (!table.name.starts_with("#sql-")) return Status::Ok();
  const std::string name = "#sqlx-" + table.name.substr(std::string_view("#sql-").size());
  done->kept.push_back(name_key(table.database, name));
  return rename_aside(table, name);
}

Status Catalog::put_back(const TableDef &table, FinishedAlters *done) {
  done->put_back.push_back(name_key(table.database, table.former_name));
  return rename_aside(table, table.former_name);
}

// Renames a table with all its partitions; if `table` is a partition, only that partition.
Status Catalog::rename_aside(const TableDef &table, std::string_view name) {
  return is_partition(table.name) ? rename(table.database, table.name, table.database, name)
                                  : rename_partitioned(table.database, table.name, table.database, name);
}

Status Catalog::drop_aside(const TableDef &table, FinishedAlters *done) {
  if (!is_held_drop(table.name)) done->dropped.push_back(name_key(table.database, table.name));
  return is_partition(table.name) ? drop(table.database, table.name)
                                  : drop_partitioned(table.database, table.name);
}

}  // namespace atoll::catalog
