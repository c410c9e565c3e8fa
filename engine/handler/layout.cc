// See layout.h.
#include "handler/server.h"

#include "handler/layout.h"

#include <algorithm>

#include "handler/field_map.h"

namespace atoll::handler {
namespace {

using codec::KeyPart;

const catalog::IndexDef *find_index(const catalog::TableDef &def, std::string_view name) {
  for (const catalog::IndexDef &index : def.indexes)
    if (!index.building && index.name == name) return &index;
  return nullptr;
}

}  // namespace

void append_hidden_id(uint64_t id, std::string *out) {
  for (int shift = 56; shift >= 0; shift -= 8) out->push_back(static_cast<char>(id >> shift));
}

uint64_t hidden_id_of(std::string_view eight_bytes) {
  uint64_t id = 0;
  for (size_t i = 0; i < kHiddenIdLength && i < eight_bytes.size(); i++)
    id = id << 8 | static_cast<uint8_t>(eight_bytes[i]);
  return id;
}

Status outermost_key(const Layout &layout, const IndexLayout &index, rocksdb::DB *db, bool last,
                     std::string *key) {
  const rocksdb::Slice lower(index.start), upper(index.end);
  rocksdb::ReadOptions options;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options, layout.family()->handle()));
  last ? it->SeekToLast() : it->SeekToFirst();
  key->clear();
  if (it->Valid()) key->assign(it->key().data(), it->key().size());
  return lsm::from_rocksdb(it->status());
}

Status last_hidden_id(const Layout &layout, rocksdb::DB *db, uint64_t *id) {
  std::string key;
  const Status status = outermost_key(layout, layout.primary_index(), db, true, &key);
  *id = key.empty() ? 0 : hidden_id_of(std::string_view(key).substr(codec::kKeyStartLength));
  return status;
}

Status Layout::build(const TABLE *table, catalog::TablePtr def, lsm::Family *family,
                     std::shared_ptr<const Layout> *out) {
  const TABLE_SHARE *share = table->s;
  auto layout = std::make_shared<Layout>();
  layout->def_ = std::move(def);
  layout->family_ = family;
  const catalog::TableDef &d = *layout->def_;

  std::vector<codec::Column> columns;
  layout->stored_.assign(share->fields, -1);
  for (uint i = 0; i < share->fields; i++) {
    const Field *field = share->field[i];
    if (!field->stored_in_db()) continue;
    const size_t stored = columns.size();
    if (stored >= d.column_ids.size())
      return Status(Code::kInvalid, "it has more columns than its definition");
    layout->stored_[i] = static_cast<int>(stored);
    columns.push_back(column_of(share, field, d.column_ids[stored]));
  }
  if (columns.size() != d.column_ids.size())
    return Status(Code::kInvalid, "it has fewer columns than its definition");

  auto row = std::make_shared<codec::RowCodec>(d.versions.back().version, std::move(columns), d.defaults);
  for (size_t i = 0; i + 1 < d.versions.size(); i++)
    row->add_past_version(d.versions[i].version, d.versions[i].columns);
  layout->row_ = std::move(row);
  ATOLL_RETURN_IF_ERROR(layout->build_indexes(table));
  layout->set_starts(d.prefix);
  layout->build_former();
  *out = std::move(layout);
  return Status::Ok();
}

void Layout::build_hidden_primary() {
  hidden_.name = "";
  hidden_.ordinal = def_->indexes.empty() ? 1 : def_->indexes[0].ordinal;
  hidden_.unique = true;
  hidden_.codec = std::make_shared<const codec::KeyCodec>(hidden_.ordinal, std::vector<KeyPart>(), 0);
}

Status Layout::build_indexes(const TABLE *table) {
  const TABLE_SHARE *share = table->s;
  primary_ = share->primary_key == MAX_KEY ? -1 : static_cast<int>(share->primary_key);
  if ((primary_ < 0) != def_->hidden_primary_key)
    return Status(Code::kInvalid, "it has another primary key than its definition");
  std::vector<KeyPart> primary_parts;
  if (primary_ < 0) {
    build_hidden_primary();
  } else {
    const KEY &key = table->key_info[primary_];
    for (uint i = 0; i < key.user_defined_key_parts; i++)
      primary_parts.push_back(key_part_of(share, key.key_part[i]));
  }
  for (uint number = 0; number < share->keys; number++) {
    const KEY &key = table->key_info[number];
    const catalog::IndexDef *stored = find_index(*def_, {key.name.str, key.name.length});
    if (stored == nullptr)
      return Status(Code::kInvalid, "its index " + std::string(key.name.str) + " is not in the catalog");
    IndexLayout index;
    index.name.assign(key.name.str, key.name.length);
    index.ordinal = stored->ordinal;
    index.readable_from = stored->readable_from;
    index.unique = (key.flags & HA_NOSAME) != 0 && key.algorithm != HA_KEY_ALG_LONG_HASH;
    index.user_parts = key.user_defined_key_parts;
    std::vector<KeyPart> parts;
    for (uint i = 0; i < key.user_defined_key_parts; i++)
      parts.push_back(key_part_of(share, key.key_part[i]));
    if (static_cast<int>(number) != primary_)
      parts.insert(parts.end(), primary_parts.begin(), primary_parts.end());
    index.parts.assign(parts.begin(), parts.begin() + index.user_parts);
    index.codec = std::make_shared<const codec::KeyCodec>(index.ordinal, std::move(parts), index.user_parts);
    find_cut_fields(table, number, &index);
    indexes_.push_back(std::move(index));
  }
  return Status::Ok();
}

void Layout::find_cut_fields(const TABLE *table, uint number, IndexLayout *index) const {
  std::vector<uint> cut, given;
  for (size_t part = 0; part < index->codec->part_count(); part++) {
    const bool of_user = part < index->user_parts;
    const KEY &key = table->key_info[of_user ? number : static_cast<uint>(primary_)];
    const uint field = key.key_part[of_user ? part : part - index->user_parts].fieldnr - 1;
    (index->codec->decodable(part) ? given : cut).push_back(field);
  }
  for (const uint field : cut)
    if (std::find(given.begin(), given.end(), field) == given.end()) index->cut_fields.push_back(field);
}

void Layout::set_starts(uint32_t prefix) {
  const auto set = [prefix](IndexLayout *index) {
    index->start.clear();
    index->codec->append_start(prefix, &index->start);
    index->end = codec::key_after_prefix(index->start);
  };
  if (primary_ < 0) set(&hidden_);
  for (IndexLayout &index : indexes_) set(&index);
}

std::shared_ptr<const Layout> Layout::moved(catalog::TablePtr def, lsm::Family *family) const {
  auto copy = std::make_shared<Layout>(*this);
  copy->def_ = std::move(def);
  copy->family_ = family;
  copy->set_starts(copy->def_->prefix);
  copy->former_.reset();
  return copy;
}

std::string Layout::moved_key(std::string_view key) const {
  std::string moved = primary_index().start.substr(0, codec::kKeyPrefixLength);
  return moved.append(key.substr(codec::kKeyPrefixLength));
}

void Layout::build_former() {
  const catalog::FormerPlace &place = def_->former_place;
  if (place.family == nullptr) return;
  auto def = std::make_shared<catalog::TableDef>(*def_);
  def->family_id = place.family->id();
  def->prefix = place.prefix;
  def->own_family = false;
  def->readable_from.number = place.readable_from;
  former_ = moved(std::move(def), place.family);
}

// Walks the parts one by one: a nullable part starts with its marker, 0x00 for NULL (inverted if descending).
bool Layout::entry_has_null(size_t number, std::string_view entry_key) const {
  const IndexLayout &index = indexes_[number];
  std::string_view rest = entry_key.substr(codec::kKeyStartLength);
  for (size_t i = 0; i < index.user_parts; i++) {
    size_t offset = 0;
    if (i > 0 && !index.codec->skip_parts(rest, i, &offset).ok()) return false;
    const codec::KeyPart &part = index.parts[i];
    if (part.never_null || offset >= rest.size()) continue;
    const uint8_t null_marker = part.descending ? 0xFF : 0x00;
    if (static_cast<uint8_t>(rest[offset]) == null_marker) return true;
  }
  return false;
}

void Layout::primary_key(const uint8_t *record, uint64_t hidden_id, std::string *out) const {
  const IndexLayout &index = primary_index();
  out->assign(index.start);
  if (primary_ < 0)
    append_hidden_id(hidden_id, out);
  else
    index.codec->append_parts(record, index.codec->part_count(), out, nullptr);
}

void Layout::secondary_entry(size_t number, const uint8_t *record, std::string_view primary_key,
                             std::string *key, std::string *value, bool *has_null) const {
  const IndexLayout &index = indexes_[number];
  key->assign(index.start);
  *has_null = false;
  index.codec->append_parts(record, index.user_parts, key, has_null);
  key->append(primary_key.substr(codec::kKeyStartLength));
  if (value) {
    value->clear();
    index.codec->append_unpack(record, value);
  }
}

Status Layout::user_part_length(size_t number, std::string_view entry_key, size_t *length) const {
  const IndexLayout &index = indexes_[number];
  if (entry_key.size() < codec::kKeyStartLength) return Status(Code::kCorruption, "index entry is too short");
  size_t bytes = 0;
  ATOLL_RETURN_IF_ERROR(
      index.codec->skip_parts(entry_key.substr(codec::kKeyStartLength), index.user_parts, &bytes));
  *length = codec::kKeyStartLength + bytes;
  return Status::Ok();
}

size_t Layout::unique_length(size_t number, std::string_view entry_key) const {
  size_t length = 0;
  if (!user_part_length(number, entry_key, &length).ok()) return 0;
  return entry_has_null(number, entry_key) ? 0 : length;
}

Status Layout::primary_of_entry(size_t number, std::string_view entry_key, std::string *out) const {
  size_t length = 0;
  ATOLL_RETURN_IF_ERROR(user_part_length(number, entry_key, &length));
  out->assign(primary_index().start);
  out->append(entry_key.substr(length));
  return Status::Ok();
}

std::vector<codec::PastColumn> Layout::past_columns(const codec::RowCodec &row) {
  std::vector<codec::PastColumn> columns;
  for (size_t i = 0; i < row.column_count(); i++) {
    const codec::Column &c = row.column(i);
    columns.push_back({c.id, c.kind, c.length, c.null_offset >= 0});
  }
  return columns;
}

}  // namespace atoll::handler
