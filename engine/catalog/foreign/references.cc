// Catalog: which tables refer to a table by FOREIGN KEY, and how constraints follow when a table or its
// columns change. The index in memory follows each change of a definition (Impl::install(), Impl::forget());
// it is not stored.
#include <algorithm>

#include "catalog/catalog_impl.h"

namespace atoll::catalog {
namespace {

void rename_columns(const std::map<std::string, std::string> &renamed, std::vector<std::string> *columns) {
  for (std::string &column : *columns) {
    const auto found = std::find_if(renamed.begin(), renamed.end(),
                                    [&](const auto &pair) { return same_name(pair.first, column); });
    if (found != renamed.end()) column = found->second;
  }
}

bool refers_to(const ForeignKeyDef &key, std::string_view database, std::string_view table) {
  return key.parent_database == database && key.parent_table == table;
}

// Renames the columns of `parent` in the constraints of `child`.
void rename_parent_columns(const TableDef &parent, const std::map<std::string, std::string> &renamed,
                           TableDef *child) {
  for (ForeignKeyDef &key : child->foreign_keys)
    if (refers_to(key, parent.database, parent.name)) rename_columns(renamed, &key.parent_columns);
}

// The key of Impl::references for the children of a table. `is_aside`: for those that an ALTER has set aside.
std::string parent_key(std::string_view database, std::string_view table, bool is_aside) {
  return name_key(database, table) + (is_aside ? std::string(1, '\0') : std::string());
}

}  // namespace

Catalog::Impl::References Catalog::Impl::references_of(const TableDef &table) {
  References references;
  const bool is_aside = is_internal(table.name);
  if (is_aside && table.former_name.empty()) return references;
  for (const ForeignKeyDef &key : table.foreign_keys)
    references.emplace(parent_key(key.parent_database, key.parent_table, is_aside), table.id);
  return references;
}

void Catalog::Impl::index_references() {
  for (const auto &[id, table] : by_id) references.merge(references_of(*table));
}

std::vector<TablePtr> Catalog::Impl::children_of(std::string_view database_name, std::string_view table,
                                                 bool set_aside) const {
  std::vector<TablePtr> children;
  const std::string parent = parent_key(database_name, table, set_aside);
  const SharedLock lock(mutex);
  for (auto it = references.lower_bound({parent, 0}); it != references.end() && it->first == parent; ++it)
    children.push_back(by_id.at(it->second));
  return children;
}

TablePtr Catalog::Impl::with_foreign_key(std::string_view database_name, std::string_view constraint,
                                         uint32_t except_table_id) const {
  const SharedLock lock(mutex);
  for (auto it = by_name.lower_bound(name_key(database_name, "")); it != by_name.end(); ++it) {
    const TablePtr &table = it->second;
    if (table->database != database_name) break;
    if (is_internal(table->name) || table->id == except_table_id) continue;
    for (const ForeignKeyDef &key : table->foreign_keys)
      if (same_name(key.name, constraint)) return table;
  }
  return nullptr;
}

// Checks that no other table of the database has a constraint with the name of one of this table. Two
// constraints of one table have different names, because who defines a table checks that.
Status Catalog::Impl::check_names(const TableDef &table, uint32_t except_table_id) const {
  if (is_internal(table.name)) return Status::Ok();
  for (const ForeignKeyDef &key : table.foreign_keys)
    if (const TablePtr other = with_foreign_key(table.database, key.name, except_table_id))
      return Status(Code::kInvalid, "the table " + qualified_name(other->database, other->name) +
                                        " has a constraint named " + key.name + " already");
  return Status::Ok();
}

Status Catalog::Impl::with_changes(const std::vector<TableDef> &defs, const ForeignKeyChanges &changes,
                                   std::vector<TableDef> *out) const {
  *out = defs;
  for (TableDef &def : *out)
    if (const TablePtr stored = find(def.id)) def.foreign_keys = stored->foreign_keys;
  if (out->empty()) return Status::Ok();
  TableDef &table = out->front();
  std::erase_if(table.foreign_keys, [&](const ForeignKeyDef &key) {
    return std::any_of(changes.dropped.begin(), changes.dropped.end(),
                       [&](const std::string &name) { return same_name(name, key.name); });
  });
  for (ForeignKeyDef &key : table.foreign_keys) rename_columns(changes.renamed_columns, &key.columns);
  rename_parent_columns(table, changes.renamed_columns, &table);
  table.foreign_keys.insert(table.foreign_keys.end(), changes.added.begin(), changes.added.end());
  sort_by_name(&table.foreign_keys);
  ATOLL_RETURN_IF_ERROR(check_names(table, table.id));
  if (changes.renamed_columns.empty()) return Status::Ok();
  for (const TablePtr &child : children_of(table.database, table.name)) {
    if (child->id == table.id) continue;
    TableDef changed = *child;
    rename_parent_columns(out->front(), changes.renamed_columns, &changed);
    out->push_back(std::move(changed));
  }
  return Status::Ok();
}

Status Catalog::Impl::rename_references(const Renaming &renaming, TableDef *table,
                                        std::vector<TableDef> *children) const {
  const RenamedReferences &references = renaming.references;
  for (ForeignKeyDef &key : table->foreign_keys)
    if (!references.names_from.empty() && key.name.starts_with(references.names_from))
      key.name = references.names_to + key.name.substr(references.names_from.size());
  sort_by_name(&table->foreign_keys);
  ATOLL_RETURN_IF_ERROR(check_names(*table, table->id));
  if (references.table.empty()) return Status::Ok();
  const auto follow = [&](TableDef *child) {
    for (ForeignKeyDef &key : child->foreign_keys) {
      if (!refers_to(key, references.database, references.table)) continue;
      key.parent_database = renaming.database;
      key.parent_table = renaming.name;
    }
  };
  follow(table);
  for (const TablePtr &child : children_of(references.database, references.table)) {
    if (child->id == table->id) continue;
    children->push_back(*child);
    follow(&children->back());
  }
  return Status::Ok();
}

std::vector<TablePtr> Catalog::children_of(std::string_view database, std::string_view table,
                                           bool set_aside) const {
  return impl_->children_of(database, table, set_aside);
}

TablePtr Catalog::with_foreign_key(std::string_view database, std::string_view constraint) const {
  return impl_->with_foreign_key(database, constraint, 0);
}

}  // namespace atoll::catalog
