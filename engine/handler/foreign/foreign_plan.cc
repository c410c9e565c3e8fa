// See foreign_plan.h.
#include "handler/server.h"

#include "handler/foreign/foreign_plan.h"

#include <algorithm>
#include <tuple>

#include "engine/running.h"
#include "handler/ddl/definition.h"
#include "handler/layout.h"
#include "table/foreign/constraint_fit.h"

namespace atoll::handler {
namespace {

using catalog::ForeignKeyDef;
using catalog::TableDescription;
using table::ReferenceKey;

// False: the table has not all these columns.
bool find_columns(const TableDescription &description, const std::vector<std::string> &names,
                  std::vector<uint16_t> *out) {
  for (const std::string &name : names) {
    const int column = description.find_column(name);
    if (column < 0) return false;
    out->push_back(static_cast<uint16_t>(column));
  }
  return true;
}

bool begins_with(const catalog::KeyDescription &key, const std::vector<uint16_t> &columns) {
  if (key.parts.size() < columns.size()) return false;
  for (size_t i = 0; i < columns.size(); i++)
    if (key.parts[i].column != columns[i] || key.parts[i].prefix_bytes != 0) return false;
  return true;
}

// Checks of references read the newest rows, whatever the snapshot is, also those of a table that is newer
// than the snapshot.
catalog::TablePtr for_newest_rows(const catalog::TableDef &table) {
  auto copy = std::make_shared<catalog::TableDef>(table);
  copy->readable_from = {};
  copy->former_place = {};
  return copy;
}

// The records of a table that need not be open. Leaves *out alone if the table does not exist.
Status layout_of(const TableName &name, std::shared_ptr<const Layout> *out) {
  const Definition found = find_definition(name);
  if (!found.table || found.family == nullptr || !found.table->description.is_known()) return Status::Ok();
  const Status status = described_layout(for_newest_rows(*found.table), found.family, out);
  return status.code() == Code::kInvalid ? Status::Ok() : status;
}

// The stored column ROW END that the server has added to a system-versioned table; -1: there is none. The
// description does not say which column it is if the user has declared it.
int row_end_of(const Layout &layout) {
  const TableDescription &description = layout.def().description;
  const int column = description.find_column("row_end");
  if (column < 0) return -1;
  const catalog::ColumnDescription &found = description.columns[static_cast<size_t>(column)];
  return found.visibility == catalog::Visibility::kSystem ? layout.stored_column(static_cast<size_t>(column))
                                                          : -1;
}

// Completes `link` with the index of the other table, whose columns are `other_names`.
void choose_index(const Layout &own, const std::vector<std::string> &other_names, ForeignLink *link) {
  const std::shared_ptr<const Layout> other = std::move(link->layout);
  link->layout = nullptr;
  if (!other) return;
  const TableDescription &description = other->def().description;
  if (!find_columns(description, other_names, &link->others)) return;
  for (const size_t index : table::search_order(description)) {
    if (!begins_with(description.keys[index], link->others)) continue;
    if (!ReferenceKey::make(*other, index, own, link->columns, &link->key).ok()) continue;
    link->index = index;
    link->row_end = row_end_of(*other);
    link->layout = other;
    return;
  }
}

// Sorts the constraints as InnoDB checks them: by the index of this table, the primary one first.
void sort_links(const Layout &own, std::vector<ForeignLink> *links) {
  const TableDescription &description = own.def().description;
  const std::vector<size_t> order = table::search_order(description);
  const auto rank = [&](const ForeignLink &link) {
    const size_t place = std::find(order.begin(), order.end(), link.own_index) - order.begin();
    return std::make_tuple(link.own_index < 0 ? 0 : place, link.child->database + "/" + link.constraint.name);
  };
  for (ForeignLink &link : *links) {
    const auto index = std::find_if(order.begin(), order.end(), [&](size_t number) {
      return begins_with(description.keys[number], link.columns);
    });
    link.own_index = index == order.end() ? own.primary() : static_cast<int>(*index);
    const auto parent = std::find(order.begin(), order.end(), link.index);
    link.may_be_own_parent = link.is_self && link.layout != nullptr && parent < index;
  }
  std::stable_sort(links->begin(), links->end(),
                   [&](const ForeignLink &a, const ForeignLink &b) { return rank(a) < rank(b); });
}

Status add_parents(const Layout &own, const catalog::TablePtr &table, std::vector<ForeignLink> *links) {
  for (const ForeignKeyDef &constraint : table->foreign_keys) {
    ForeignLink link{.child = table, .constraint = constraint};
    if (!find_columns(own.def().description, constraint.columns, &link.columns)) continue;
    link.is_self = constraint.parent_database == table->database && constraint.parent_table == table->name;
    link.other = {sql_name(constraint.parent_database), sql_name(constraint.parent_table)};
    ATOLL_RETURN_IF_ERROR(layout_of({constraint.parent_database, constraint.parent_table}, &link.layout));
    choose_index(own, constraint.parent_columns, &link);
    links->push_back(std::move(link));
  }
  return Status::Ok();
}

Status add_children(const Layout &own, const catalog::TableDef &table, std::vector<ForeignLink> *links) {
  for (const catalog::TablePtr &child :
       engine::running()->catalog()->children_of(table.database, table.name)) {
    for (const ForeignKeyDef &constraint : child->foreign_keys) {
      if (constraint.parent_database != table.database || constraint.parent_table != table.name) continue;
      ForeignLink link{.child = child, .constraint = constraint};
      if (!find_columns(own.def().description, constraint.parent_columns, &link.columns)) continue;
      link.other = {sql_name(child->database), sql_name(child->name)};
      link.is_self = child->id == table.id;
      ATOLL_RETURN_IF_ERROR(layout_of({child->database, child->name}, &link.layout));
      choose_index(own, constraint.columns, &link);
      links->push_back(std::move(link));
    }
  }
  return Status::Ok();
}

}  // namespace

Status make_foreign_plan(const std::shared_ptr<const Layout> &layout, uint64_t generation,
                         std::shared_ptr<const ForeignPlan> *out) {
  auto plan = std::make_shared<ForeignPlan>();
  plan->generation = generation;
  // The newest definition: a constraint may have been added or dropped since the table was opened.
  const catalog::TablePtr table = engine::running()->catalog()->find(layout->def().id);
  if (table && table->description.is_known() && !is_internal(table->name)) {
    ATOLL_RETURN_IF_ERROR(add_parents(*layout, table, &plan->parents));
    ATOLL_RETURN_IF_ERROR(add_children(*layout, *table, &plan->children));
    for (const catalog::TablePtr &child :
         engine::running()->catalog()->children_of(table->database, table->name, true))
      plan->replaced.push_back({sql_name(child->database), sql_name(child->former_name)});
    sort_links(*layout, &plan->parents);
    sort_links(*layout, &plan->children);
  }
  *out = std::move(plan);
  return Status::Ok();
}

}  // namespace atoll::handler
