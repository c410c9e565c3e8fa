// The functions of key_codec.h that make column values from keys. Also the unpack section (table FMT-K7),
// which contains what a key alone does not give.
#include <algorithm>

#include "codec/column_access.h"
#include "codec/key_codec.h"
#include "codec/key_parts.h"

namespace atoll::codec {

// Reads the numbers and texts of an unpack section one after the other. An empty section stands for a section
// in which every number is 0 (no trailing spaces, empty texts). number() and text() return false if the
// section is too short or malformed.
class KeyCodec::UnpackReader {
 public:
  explicit UnpackReader(std::string_view section) : left_(section), absent_(section.empty()) {}

  bool number(uint64_t *value) {
    *value = 0;
    if (absent_) return true;
    const uint8_t *from = as_bytes(left_);
    const size_t length = load_varint(from, from + left_.size(), value);
    left_.remove_prefix(length);
    return length != 0;
  }

  bool text(std::string_view *bytes) {
    uint64_t length = 0;
    if (!number(&length) || length > left_.size()) return false;
    *bytes = left_.substr(0, length);
    left_.remove_prefix(length);
    return true;
  }

 private:
  std::string_view left_;  // what has not been read yet
  bool absent_;            // true: the section is empty
};

namespace {

// Sets the length and the padding of a value of `length` bytes in the record, and returns where the caller
// writes the value's bytes. Returns nullptr if the column cannot hold the value.
uint8_t *place_for(const Column &column, size_t length, std::string_view space, uint8_t *record) {
  uint8_t *field = record + column.record_offset;
  if (length > column.length) return nullptr;
  switch (column.kind) {
    case ColumnKind::kVarchar:
      if (!length_fits(length, column.length_bytes)) return nullptr;
      store_le_bytes(field, length, column.length_bytes);
      return field + column.length_bytes;
    case ColumnKind::kChar:
      std::memset(field + length, column.pad_byte, column.length - length);
      return field;
    case ColumnKind::kFixed:
      for (size_t i = length; i < column.length; ++i)
        field[i] = space.empty() ? 0 : static_cast<uint8_t>(space[(i - length) % space.size()]);
      return field;
    case ColumnKind::kBlob:
      return nullptr;
  }
  return nullptr;
}

bool store_original(const Column &column, std::string_view bytes, std::string_view space, uint8_t *record) {
  if (column.kind == ColumnKind::kBlob) {
    if (!length_fits(bytes.size(), column.length_bytes)) return false;
    store_blob(record + column.record_offset, column.length_bytes, bytes);
    return true;
  }
  uint8_t *to = place_for(column, bytes.size(), space, record);
  if (to == nullptr) return false;
  copy_bytes(to, as_bytes(bytes), bytes.size());
  return true;
}

}  // namespace

void KeyCodec::append_unpack(const uint8_t *record, std::string *out) const {
  const size_t start = out->size();
  for (size_t part = 0; part < parts_.size(); ++part) append_unpack_part(record, part, out);
  if (out->find_first_not_of('\0', start) == std::string::npos) out->resize(start);
}

void KeyCodec::append_unpack_part(const uint8_t *record, size_t index, std::string *out) const {
  const Plan &plan = plans_[index];
  const Column &column = parts_[index].source;
  if (plan.unpack == Unpack::kNothing || (plan.marker && is_null(column, record))) return;
  const std::string_view bytes = column_bytes(column, record);
  if (plan.unpack == Unpack::kTrailingSpaces) {
    append_varint(out, (bytes.size() - length_without_spaces(bytes, plan.space)) / plan.space.size());
    return;
  }
  append_varint(out, bytes.size());
  out->append(bytes);
}

Status KeyCodec::decode(std::string_view key, std::string_view unpack, uint8_t *record) const {
  UnpackReader reader(unpack);
  bool good = true;
  for (size_t part = 0; good && part < parts_.size(); ++part) {
    const size_t length = part_length(plans_[part], key);
    good = length != 0 && decode_part(key.substr(0, length), part, &reader, record);
    key.remove_prefix(length);
  }
  if (good) return Status::Ok();
  return Status(Code::kCorruption, "a stored index entry cannot be decoded as an entry of its index");
}

bool KeyCodec::decode_part(std::string_view encoded, size_t index, UnpackReader *unpack,
                           uint8_t *record) const {
  const Plan &plan = plans_[index];
  if (!plan.decodable) return true;
  const Column &column = parts_[index].source;
  if (plan.marker) {
    const bool null = (static_cast<uint8_t>(encoded[0]) ^ plan.invert) == 0;
    set_null(column, null, record);
    if (null) {
      clear_column(column, record);
      return true;
    }
    encoded.remove_prefix(1);
  } else {
    set_null(column, false, record);
  }
  if (plan.shape == Shape::kFixedWidth) return decode_fixed(as_bytes(encoded), index, record);
  if (plan.unpack == Unpack::kOriginal) {
    std::string_view original;
    return unpack->text(&original) && store_original(column, original, plan.space, record);
  }
  uint64_t spaces = 0;
  if (plan.unpack == Unpack::kTrailingSpaces && !unpack->number(&spaces)) return false;
  return decode_groups(encoded, index, spaces, record);
}

bool KeyCodec::decode_fixed(const uint8_t *value, size_t index, uint8_t *record) const {
  const KeyPart &part = parts_[index];
  const Plan &plan = plans_[index];
  uint8_t *field = record + part.source.record_offset;
  if (part.kind == KeyKind::kBytes) {
    for (size_t i = 0; i < plan.width; ++i) field[i] = value[i] ^ plan.invert;
    return true;
  }
  const uint64_t inverted = plan.invert ? ~uint64_t{0} : 0;
  const uint64_t ordered = load_be_bytes(value, plan.width) ^ inverted;
  switch (part.kind) {
    case KeyKind::kFloat:
      store_le(field, float_from_ordered(static_cast<uint32_t>(ordered)));
      return true;
    case KeyKind::kDouble:
      store_le(field, double_from_ordered(ordered));
      return true;
    case KeyKind::kSigned:
      store_le_bytes(field, ordered ^ uint64_t{0x80} << (8 * (plan.width - 1)), plan.width);
      return true;
    default:
      store_le_bytes(field, ordered, plan.width);
      return true;
  }
}

bool KeyCodec::decode_groups(std::string_view groups, size_t index, uint64_t spaces, uint8_t *record) const {
  const Plan &plan = plans_[index];
  const Column &column = parts_[index].source;
  const bool padded = plan.shape == Shape::kPaddedGroups;
  const size_t group = padded ? plan.group : kBinaryGroup;
  const size_t length = padded ? padded_groups_length(groups, plan.space, plan.invert)
                               : binary_groups_length(groups, plan.invert);
  if (spaces > column.length) return false;
  const size_t spaces_length = spaces * std::max<size_t>(1, plan.space.size());
  uint8_t *to = place_for(column, length + spaces_length, plan.space, record);
  if (to == nullptr) return false;
  copy_groups(groups, group, plan.invert, length, to);
  for (size_t i = 0; i < spaces_length; ++i)
    to[length + i] = static_cast<uint8_t>(plan.space[i % plan.space.size()]);
  return true;
}

}  // namespace atoll::codec
