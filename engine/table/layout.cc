// See layout.h.
#include "table/layout.h"

#include <utility>

namespace atoll::table {

void append_hidden_id(uint64_t id, std::string *out) {
  for (int shift = 56; shift >= 0; shift -= 8) out->push_back(static_cast<char>(id >> shift));
}

uint64_t hidden_id_of(std::string_view eight_bytes) {
  uint64_t id = 0;
  for (size_t i = 0; i < kHiddenIdLength && i < eight_bytes.size(); i++)
    id = id << 8 | static_cast<uint8_t>(eight_bytes[i]);
  return id;
}

Status outermost_key(const Layout &layout, const IndexLayout &index, bool last, std::string *key) {
  const rocksdb::Slice lower(index.start), upper(index.end);
  rocksdb::ReadOptions options;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> it = layout.family()->iterator(options);
  last ? it->SeekToLast() : it->SeekToFirst();
  key->clear();
  if (it->Valid()) key->assign(it->key().data(), it->key().size());
  return lsm::from_rocksdb(it->status());
}

Layout::Layout(catalog::TablePtr def, lsm::Family *family, Columns columns)
    : def_(std::move(def)),
      family_(family),
      row_(std::move(columns.row)),
      stored_(std::move(columns.stored)),
      indexes_(std::move(columns.indexes)),
      primary_(columns.primary) {
  if (primary_ < 0) build_hidden_primary();
  set_starts(def_->prefix);
  build_former();
}

void Layout::build_hidden_primary() {
  hidden_.name = "";
  hidden_.ordinal = def_->indexes.empty() ? 1 : def_->indexes[0].ordinal;
  hidden_.unique = true;
  hidden_.codec = std::make_shared<const codec::KeyCodec>(hidden_.ordinal, std::vector<codec::KeyPart>(), 0);
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

// Examines the parts one by one. A nullable part starts with a marker byte, which is 0x00 for NULL, or 0xFF
// if the part is descending.
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

}  // namespace atoll::table
