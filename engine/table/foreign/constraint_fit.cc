// See constraint_fit.h.
#include "table/foreign/constraint_fit.h"

#include <algorithm>
#include <numeric>

#include "table/description/reference_key.h"

namespace atoll::table {
namespace {

using catalog::ColumnDescription;
using catalog::KeyDescription;
using catalog::KeyPartDescription;
using catalog::TableDescription;

// Whether the key serves. If not, changes `found` only if the reason is one that InnoDB tells.
bool serves(const TableDescription &table, const KeyDescription &key, const std::vector<std::string> &columns,
            const std::vector<const ColumnDescription *> &others, FoundIndex *found) {
  if (key.is_long_hash) return false;
  for (size_t i = 0; i < columns.size(); i++) {
    if (i >= key.parts.size()) return false;
    const KeyPartDescription &part = key.parts[i];
    const ColumnDescription &column = table.columns[part.column];
    if (part.prefix_bytes != 0) {
      found->misfit = Misfit::kPrefixIndex;
      return false;
    }
    if (!catalog::same_name(column.name, columns[i])) return false;
    if (!others.empty() && (others[i] == nullptr || !why_not_comparable(column, *others[i]).empty())) {
      found->misfit = Misfit::kTypes;
      found->column = i;
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<size_t> search_order(const TableDescription &table) {
  std::vector<size_t> order(table.keys.size());
  std::iota(order.begin(), order.end(), 0);
  if (table.primary < order.size())
    std::rotate(order.begin(), order.begin() + table.primary, order.begin() + table.primary + 1);
  return order;
}

FoundIndex find_index(const TableDescription &table, const std::vector<std::string> &columns,
                      const std::vector<const ColumnDescription *> &others) {
  FoundIndex found;
  for (const size_t number : search_order(table)) {
    if (!serves(table, table.keys[number], columns, others, &found)) continue;
    found.index = static_cast<int>(number);
    found.misfit = Misfit::kNone;
    break;
  }
  return found;
}

std::vector<const ColumnDescription *> columns_of(const TableDescription &table,
                                                  const std::vector<std::string> &names) {
  std::vector<const ColumnDescription *> columns;
  for (const std::string &name : names) {
    const int position = table.find_column(name);
    columns.push_back(position < 0 ? nullptr : &table.columns[static_cast<size_t>(position)]);
  }
  return columns;
}

FoundIndex find_parent_index(const TableDescription &child, const catalog::ForeignKeyDef &key,
                             const TableDescription &parent) {
  return find_index(parent, key.parent_columns, columns_of(child, key.columns));
}

int needed_index(const TableDescription &table, const std::vector<std::string> &columns) {
  return find_index(table, columns, {}).index;
}

}  // namespace atoll::table
