// See layout.h.
#include "handler/server.h"

#include "handler/layout.h"

#include <algorithm>

#include "engine/running.h"
#include "handler/server/field_map.h"

namespace atoll::handler {
namespace {

using codec::KeyPart;

const catalog::IndexDef *find_index(const catalog::TableDef &def, std::string_view name) {
  for (const catalog::IndexDef &index : def.indexes)
    if (!index.building && index.name == name) return &index;
  return nullptr;
}

// The fields whose value cannot be read from an entry of index `number`, because the entry holds only a
// prefix of it.
std::vector<unsigned> cut_fields(const TABLE *table, uint number, const IndexLayout &index) {
  std::vector<unsigned> cut, given, only_cut;
  for (size_t part = 0; part < index.codec->part_count(); part++) {
    const bool of_user = part < index.user_parts;
    const KEY &key = table->key_info[of_user ? number : table->s->primary_key];
    const unsigned field = key.key_part[of_user ? part : part - index.user_parts].fieldnr - 1;
    (index.codec->decodable(part) ? given : cut).push_back(field);
  }
  for (const unsigned field : cut)
    if (std::find(given.begin(), given.end(), field) == given.end()) only_cut.push_back(field);
  return only_cut;
}

std::vector<KeyPart> parts_of(const TABLE_SHARE *share, const KEY &key) {
  std::vector<KeyPart> parts;
  for (uint i = 0; i < key.user_defined_key_parts; i++) parts.push_back(key_part_of(share, key.key_part[i]));
  return parts;
}

Status build_indexes(const TABLE *table, const catalog::TableDef &def, Layout::Columns *columns) {
  const TABLE_SHARE *share = table->s;
  columns->primary = share->primary_key == MAX_KEY ? -1 : static_cast<int>(share->primary_key);
  if ((columns->primary < 0) != def.hidden_primary_key)
    return Status(Code::kInvalid, "it has another primary key than its definition");
  std::vector<KeyPart> primary_parts;
  if (columns->primary >= 0) primary_parts = parts_of(share, table->key_info[columns->primary]);
  for (uint number = 0; number < share->keys; number++) {
    const KEY &key = table->key_info[number];
    const catalog::IndexDef *stored = find_index(def, {key.name.str, key.name.length});
    if (stored == nullptr)
      return Status(Code::kInvalid, "its index " + std::string(key.name.str) + " is not in the catalog");
    IndexLayout index;
    index.name.assign(key.name.str, key.name.length);
    index.ordinal = stored->ordinal;
    index.readable_from = stored->readable_from;
    index.is_long_hash = key.algorithm == HA_KEY_ALG_LONG_HASH;
    index.unique = (key.flags & HA_NOSAME) != 0 && !index.is_long_hash;
    index.user_parts = key.user_defined_key_parts;
    index.parts = parts_of(share, key);
    std::vector<KeyPart> parts = index.parts;
    if (static_cast<int>(number) != columns->primary)
      parts.insert(parts.end(), primary_parts.begin(), primary_parts.end());
    index.codec = std::make_shared<const codec::KeyCodec>(index.ordinal, std::move(parts), index.user_parts);
    index.cut_fields = cut_fields(table, number, index);
    columns->indexes.push_back(std::move(index));
  }
  return Status::Ok();
}

}  // namespace

Status outermost_taken_key(const Layout &layout, const IndexLayout &index, bool last, std::string *key) {
  lsm::Family *family = layout.family();
  std::string uncommitted;  // read first: a key that commits in between is seen twice, not missed
  if (family->side() == lsm::Side::kMain)
    uncommitted =
        engine::running()->transactions()->outermost_uncommitted(family, index.start, index.end, last);
  ATOLL_RETURN_IF_ERROR(outermost_key(layout, index, last, key));
  if (key->empty() || (!uncommitted.empty() && (last ? *key < uncommitted : uncommitted < *key)))
    *key = std::move(uncommitted);
  return Status::Ok();
}

Status build_layout(const TABLE *table, catalog::TablePtr def, lsm::Family *family,
                    std::shared_ptr<const Layout> *out) {
  const TABLE_SHARE *share = table->s;
  const catalog::TableDef &d = *def;
  Layout::Columns columns;
  std::vector<codec::Column> stored_columns;
  columns.stored.assign(share->fields, -1);
  for (uint i = 0; i < share->fields; i++) {
    const Field *field = share->field[i];
    if (!field->stored_in_db()) continue;
    const size_t stored = stored_columns.size();
    if (stored >= d.column_ids.size())
      return Status(Code::kInvalid, "it has more columns than its definition");
    columns.stored[i] = static_cast<int>(stored);
    stored_columns.push_back(column_of(share, field, d.column_ids[stored]));
  }
  if (stored_columns.size() != d.column_ids.size())
    return Status(Code::kInvalid, "it has fewer columns than its definition");

  auto row =
      std::make_shared<codec::RowCodec>(d.versions.back().version, std::move(stored_columns), d.defaults);
  for (size_t i = 0; i + 1 < d.versions.size(); i++)
    row->add_past_version(d.versions[i].version, d.versions[i].columns);
  columns.row = std::move(row);
  ATOLL_RETURN_IF_ERROR(build_indexes(table, d, &columns));
  *out = std::make_shared<const Layout>(std::move(def), family, std::move(columns));
  return Status::Ok();
}

}  // namespace atoll::handler
