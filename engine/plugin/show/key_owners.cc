// See key_owners.h.
#include "handler/server.h"

#include "plugin/show/key_owners.h"

#include "base/bytes.h"
#include "handler/ddl/table_name.h"
#include "handler/statistics/open_shares.h"

namespace atoll::plugin {
namespace {

// The length of the bytes before the values in a key: the table's prefix and the index's ordinal.
constexpr size_t kStart = codec::kKeyStartLength;

uint32_t prefix_of(std::string_view key) {
  return static_cast<uint32_t>(load_be_bytes(reinterpret_cast<const uint8_t *>(key.data()), 4));
}

uint16_t ordinal_of(std::string_view key) {
  return static_cast<uint16_t>(load_be_bytes(reinterpret_cast<const uint8_t *>(key.data()) + 4, 2));
}

}  // namespace

KeyOwners::KeyOwners(const catalog::Catalog &catalog) {
  for (const catalog::TablePtr &table : catalog.list(""))
    if (!table->logical_only) owners_[{table->family_id, table->prefix}] = table;
}

catalog::TablePtr KeyOwners::table(uint32_t family_id, std::string_view key) const {
  if (key.size() < kStart) return nullptr;
  const auto found = owners_.find({family_id, prefix_of(key)});
  return found == owners_.end() ? nullptr : found->second;
}

catalog::TablePtr KeyOwners::sole_table(uint32_t family_id) const {
  const auto found = owners_.find({family_id, 0});
  return found == owners_.end() || !found->second->own_family ? nullptr : found->second;
}

catalog::TablePtr KeyOwners::table(const lsm::TableFile &file) const {
  const catalog::TablePtr first = table(file.family_id, file.smallest_key);
  return first == table(file.family_id, file.largest_key) ? first : nullptr;
}

std::string_view KeyOwners::index_name(const catalog::TableDef &table, std::string_view key) {
  if (key.size() < kStart) return "";
  for (const catalog::IndexDef &index : table.indexes)
    if (index.ordinal == ordinal_of(key)) return index.name;
  return "";
}

std::string KeyOwners::values(const catalog::TableDef &table, std::string_view key) {
  const std::string_view values = key.substr(std::min(key.size(), kStart));
  if (const auto layout = handler::layout_of_open_table(table.id); layout && key.size() >= kStart)
    for (size_t i = 0; i < layout->index_count(); i++)
      if (layout->index(i).ordinal == ordinal_of(key)) return layout->index(i).codec->text_of(values);
  return "(X'" + to_hex(values) + "')";
}

std::string KeyOwners::place(uint32_t family_id, std::string_view key) const {
  const catalog::TablePtr owner = table(family_id, key);
  if (!owner) return "a table dropped since, key X'" + to_hex(key) + "'";
  const std::string_view index = index_name(*owner, key);
  return handler::sql_name(owner->database) + "." + handler::sql_name(owner->name) +
         (index.empty() ? ", rows" : ", index " + std::string(index)) + ", key " + values(*owner, key);
}

}  // namespace atoll::plugin
