// See table_pairs.h.

#include "visitor/table_pairs.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace atoll::visitor {
namespace {

using catalog::TableDef;
using catalog::TablePtr;

using Name = std::pair<std::string, std::string>;
Name full_name(const TableDef &table) { return {table.database, table.name}; }

// Identifies a table by its id and the time when it was created. The id alone does not suffice: after a
// restore to a past state, ids of tables that were created after that state are given out again.
using Identity = std::pair<uint32_t, uint64_t>;
Identity identity_of(const TableDef &table) { return {table.id, table.created_us}; }

// Whether two .frm files say the same of a table. The server gives a table a new random version with each
// ALTER, also with those by which Atoll moves a grown table to its own column family, so the version does not
// count. MariaDB writes it as the first of the values that follow the file's header of 64 bytes: the type of
// the value (0), its length (16), and 16 bytes.
bool say_the_same(std::string_view one, std::string_view other) {
  constexpr std::string_view kVersion("\0\x10", 2);
  constexpr size_t kBegin = 64, kEnd = kBegin + kVersion.size() + 16;
  const auto has_version = [&](std::string_view frm) {
    return frm.size() >= kEnd && frm.substr(kBegin, kVersion.size()) == kVersion;
  };
  if (!has_version(one) || !has_version(other)) return one == other;
  return one.substr(0, kBegin) == other.substr(0, kBegin) && one.substr(kEnd) == other.substr(kEnd);
}

template <typename Key>
TablePtr take(std::map<Key, TablePtr> *tables, const Key &key) {
  const auto found = tables->extract(key);
  return found.empty() ? nullptr : found.mapped();
}

}  // namespace

std::vector<TablePair> pair_tables(const std::vector<TablePtr> &before, const std::vector<TablePtr> &after) {
  std::map<Identity, TablePtr> former;
  for (const TablePtr &table : before) former[identity_of(*table)] = table;
  std::vector<TablePair> pairs;
  for (const TablePtr &table : after) pairs.push_back({take(&former, identity_of(*table)), table});
  std::map<Name, TablePtr> left;
  for (const auto &[identity, table] : former) left[full_name(*table)] = table;
  for (TablePair &pair : pairs)
    if (pair.before == nullptr) pair.before = take(&left, full_name(*pair.after));
  std::sort(pairs.begin(), pairs.end(), [](const TablePair &one, const TablePair &other) {
    return full_name(*one.after) < full_name(*other.after);
  });
  for (const auto &[name, table] : left) pairs.push_back({table, nullptr});
  return pairs;
}

Change change_of(const TablePair &pair) {
  if (pair.before == nullptr) return Change::kAdded;
  if (pair.after == nullptr) return Change::kDropped;
  const TableDef &before = *pair.before, &after = *pair.after;
  if (identity_of(before) != identity_of(after)) return Change::kRebuilt;
  if (full_name(before) != full_name(after)) return Change::kRenamed;
  const bool is_same = say_the_same(before.frm, after.frm) && before.versions == after.versions &&
                       before.indexes == after.indexes && before.column_ids == after.column_ids &&
                       changes(before.description, after.description).empty();
  return is_same ? Change::kNone : Change::kAltered;
}

const char *name_of(Change change) {
  switch (change) {
    case Change::kNone:
      return "";
    case Change::kAdded:
      return "added";
    case Change::kDropped:
      return "dropped";
    case Change::kRebuilt:
      return "rebuilt";
    case Change::kRenamed:
      return "renamed";
    case Change::kAltered:
      return "altered";
  }
  return "";
}

}  // namespace atoll::visitor
