// See key_codec.h. This file writes and measures keys; key_decode.cc reads them back.
#include "codec/key_codec.h"

#include <algorithm>
#include <memory>

#include "base/border/assert.h"
#include "codec/column_access.h"
#include "codec/key_parts.h"

namespace atoll::codec {

namespace {

constexpr size_t kNumberBytesMax = 8;  // append_number() and decode_fixed() have room for this
constexpr char kNullMarker = 0x00;
constexpr char kValueMarker = 0x01;
constexpr size_t kStackWeights = 4096;      // bytes of a WeightBuffer on the stack; usually enough
constexpr uint32_t kCharacterBytesMax = 4;  // most bytes of a character. Source: MY_CS_MBMAXLEN of every
                                            // usable set, MariaDB 10.11

// Memory for the weights of one text: on the stack, or on the heap when the text is unusually long.
class WeightBuffer {
 public:
  explicit WeightBuffer(size_t bytes) : size_(std::max(bytes, kStackWeights)) {
    if (bytes > kStackWeights) heap_.reset(new uint8_t[bytes]);
  }
  uint8_t *bytes() { return heap_ ? heap_.get() : stack_; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  std::unique_ptr<uint8_t[]> heap_;
  uint8_t stack_[kStackWeights];
};

bool is_prefix(const KeyPart &part) { return part.prefix_length != 0 || part.prefix_characters != 0; }

uint32_t fixed_width(const KeyPart &part) {
  switch (part.kind) {
    case KeyKind::kFloat:
      return 4;
    case KeyKind::kDouble:
      return 8;
    case KeyKind::kBytes:
      return part.prefix_length ? std::min(part.prefix_length, part.source.length) : part.source.length;
    default:
      return part.source.length;
  }
}

void store_number(const KeyPart &part, const uint8_t *field, uint8_t *to) {
  const size_t length = part.source.length;
  switch (part.kind) {
    case KeyKind::kFloat:
      return store_be_bytes(to, ordered_float(load_le<uint32_t>(field)), 4);
    case KeyKind::kDouble:
      return store_be_bytes(to, ordered_double(load_le<uint64_t>(field)), 8);
    default:
      break;
  }
  store_be_bytes(to, load_le_bytes(field, length), length);
  if (part.kind == KeyKind::kSigned) to[0] ^= 0x80;
}

}  // namespace

// True for PAD SPACE collations of several levels that cannot give the levels one by one. They pad a text to
// the length of its column before they make the weights.
bool keys_depend_on_length(const Collation &collation) {
  return collation.pad_space() && !collation.single_level() && collation.level_count() == 0;
}

KeyCodec::KeyCodec(uint16_t ordinal, std::vector<KeyPart> parts, size_t user_parts)
    : ordinal_(ordinal), parts_(std::move(parts)), user_parts_(user_parts) {
  for (const KeyPart &part : parts_) plans_.push_back(plan_of(part));
}

KeyCodec::Plan KeyCodec::plan_of(const KeyPart &part) {
  Plan plan;
  plan.marker = (part.source.null_offset >= 0 && !part.never_null) || part.always_marked;
  plan.decodable = !is_prefix(part);
  plan.invert = part.descending ? 0xFF : 0x00;
  if (part.kind != KeyKind::kBinary && part.kind != KeyKind::kText) {
    plan.width = fixed_width(part);
    plan.number = part.kind != KeyKind::kBytes;
    ATOLL_ASSERT(!plan.number || plan.width <= kNumberBytesMax);
    return plan;
  }
  plan.shape = Shape::kBinaryGroups;
  const bool blob = part.source.kind == ColumnKind::kBlob;
  // decode() makes a blob's pointer point into the unpack section, so the section must have the blob's bytes.
  if (plan.decodable && blob) plan.unpack = Unpack::kOriginal;
  if (part.kind == KeyKind::kText) plan_text(part, &plan);
  return plan;
}

void KeyCodec::plan_text(const KeyPart &part, Plan *plan) {
  const Collation &collation = *part.collation;
  plan->space = collation.space_weights();
  plan->filled = part.filled_with_spaces && !pads(part);
  const bool padded = pads(part) && collation.single_level();
  if (collation.level_count() > 1) {
    plan->shape = Shape::kLevels;
    for (size_t i = 0; i < collation.level_count(); ++i) {
      Level level{
          .padded = collation.level_pads(i), .group = 0, .space = std::string(collation.level_space(i))};
      if (level.padded)
        level.group = static_cast<uint8_t>(padded_group(level.space.size(), i == 0 ? 8 : kLaterLevelGroup));
      plan->levels.push_back(std::move(level));
    }
  } else if (padded) {
    plan->shape = Shape::kPaddedGroups;
    plan->group = static_cast<uint8_t>(padded_group(plan->space.size()));
  }
  if (!plan->decodable || part.source.kind == ColumnKind::kBlob) return;
  const bool spaces_implied = part.source.kind == ColumnKind::kFixed ||
                              (part.source.kind == ColumnKind::kChar && plan->space.size() == 1 &&
                               plan->space[0] == static_cast<char>(part.source.pad_byte));
  if (!collation.byte_order() || !collation.single_level())
    plan->unpack = Unpack::kOriginal;
  else if (padded && !spaces_implied)
    plan->unpack = Unpack::kTrailingSpaces;
}

void KeyCodec::append_start(uint32_t prefix, std::string *out) const {
  uint8_t start[kKeyStartLength];
  store_be_bytes(start, prefix, kKeyPrefixLength);
  store_be_bytes(start + kKeyPrefixLength, ordinal_, kKeyStartLength - kKeyPrefixLength);
  out->append(reinterpret_cast<const char *>(start), sizeof start);
}

void KeyCodec::append_parts(const uint8_t *record, size_t part_count, std::string *out,
                            bool *has_null) const {
  [[maybe_unused]] const size_t start = out->size();
  for (size_t part = 0; part < part_count; ++part) append_part(record, part, out, has_null);
  ATOLL_ASSERT_DEAR([&] {
    size_t bytes = 0;
    return skip_parts(std::string_view(*out).substr(start), part_count, &bytes).ok() &&
           start + bytes == out->size();
  }());
}

void KeyCodec::append_part(const uint8_t *record, size_t index, std::string *out, bool *has_null) const {
  const Plan &plan = plans_[index];
  const bool null = plan.marker && is_null(parts_[index].source, record);
  if (null) {
    if (has_null != nullptr && index < user_parts_) *has_null = true;
    out->push_back(static_cast<char>(kNullMarker ^ plan.invert));
    return;
  }
  if (plan.number) return append_number(record, index, out);
  const size_t start = out->size();
  if (plan.marker) out->push_back(kValueMarker);
  append_value(record, index, out);
  if (plan.invert != 0) invert_bytes(out, start);
}

// Appends marker and number in one step, because most keys begin with a number.
void KeyCodec::append_number(const uint8_t *record, size_t index, std::string *out) const {
  const Plan &plan = plans_[index];
  uint8_t bytes[1 + kNumberBytesMax];
  bytes[0] = kValueMarker;
  store_number(parts_[index], record + parts_[index].source.record_offset, bytes + 1);
  const size_t length = 1 + plan.width;
  if (plan.invert != 0)
    for (size_t i = 0; i < length; ++i) bytes[i] ^= plan.invert;
  const size_t from = plan.marker ? 0 : 1;
  out->append(reinterpret_cast<const char *>(bytes) + from, length - from);
}

void KeyCodec::append_value(const uint8_t *record, size_t index, std::string *out) const {
  const KeyPart &part = parts_[index];
  if (part.kind == KeyKind::kText) return append_text(indexed_bytes(record, index), index, out);
  if (part.kind == KeyKind::kBinary) return append_binary_groups(indexed_bytes(record, index), out);
  out->append(reinterpret_cast<const char *>(record) + part.source.record_offset, plans_[index].width);
}

std::string_view KeyCodec::indexed_bytes(const uint8_t *record, size_t index) const {
  const KeyPart &part = parts_[index];
  if (plans_[index].filled) {
    const std::string_view filled = as_view(record + part.source.record_offset, part.source.length);
    return filled.substr(0, part.collation->prefix_bytes(filled, part.characters_max));
  }
  const std::string_view bytes = column_bytes(part.source, record);
  if (part.prefix_characters != 0)
    return bytes.substr(0, part.collation->prefix_bytes(bytes, part.prefix_characters));
  return part.prefix_length != 0 ? bytes.substr(0, part.prefix_length) : bytes;
}

void KeyCodec::append_text(std::string_view text, size_t index, std::string *out) const {
  const KeyPart &part = parts_[index];
  const Plan &plan = plans_[index];
  const Collation &collation = *part.collation;
  if (plan.shape == Shape::kLevels) return append_levels(text, index, out);
  const auto append_weights = [&plan, out](std::string_view weights) {
    if (plan.shape != Shape::kPaddedGroups) return append_binary_groups(weights, out);
    weights = weights.substr(0, length_without_spaces(weights, plan.space));
    append_padded_groups(weights, plan.space, plan.group, out);
  };
  const bool padded_levels = keys_depend_on_length(collation) && part.characters_max != 0;
  if (collation.byte_order() && !padded_levels) return append_weights(text);
  const size_t padded_bytes = padded_levels ? size_t{part.characters_max} * kCharacterBytesMax : 0;
  WeightBuffer buffer(collation.weights_length_max(std::max(text.size(), padded_bytes)));
  uint8_t *bytes = buffer.bytes();
  append_weights(
      as_view(bytes, padded_levels ? collation.weights_padded(text, part.characters_max, bytes, buffer.size())
                                   : collation.weights(text, bytes, buffer.size())));
}

void KeyCodec::append_levels(std::string_view text, size_t index, std::string *out) const {
  const Collation &collation = *parts_[index].collation;
  WeightBuffer buffer(collation.weights_length_max(text.size()));
  size_t number = 0;
  for (const Level &level : plans_[index].levels) {
    std::string_view weights =
        as_view(buffer.bytes(), collation.level_weights(text, number++, buffer.bytes(), buffer.size()));
    if (!level.padded) {
      append_binary_groups(weights, out);
      continue;
    }
    weights = weights.substr(0, length_without_spaces(weights, level.space));
    append_padded_groups(weights, level.space, level.group, out);
  }
}

size_t KeyCodec::levels_length(const Plan &plan, std::string_view key) noexcept {
  size_t length = 0;
  for (const Level &level : plan.levels) {
    const std::string_view rest = key.substr(length);
    const size_t here = level.padded ? skip_padded_groups(rest, level.group, plan.invert)
                                     : skip_binary_groups(rest, plan.invert);
    if (here == 0) return 0;
    length += here;
  }
  return length;
}

size_t KeyCodec::part_length(const Plan &plan, std::string_view key) const noexcept {
  size_t length = 0;
  if (plan.marker) {
    if (key.empty()) return 0;
    const char marker = static_cast<char>(key[0] ^ plan.invert);
    if (marker == kNullMarker) return 1;
    if (marker != kValueMarker) return 0;
    key.remove_prefix(1);
    length = 1;
  }
  size_t value = 0;
  switch (plan.shape) {
    case Shape::kFixedWidth:
      return plan.width <= key.size() ? length + plan.width : 0;
    case Shape::kBinaryGroups:
      value = skip_binary_groups(key, plan.invert);
      break;
    case Shape::kPaddedGroups:
      value = skip_padded_groups(key, plan.group, plan.invert);
      break;
    case Shape::kLevels:
      value = levels_length(plan, key);
      break;
  }
  return value == 0 ? 0 : length + value;
}

Status KeyCodec::skip_parts(std::string_view key, size_t part_count, size_t *bytes) const {
  size_t at = 0;
  for (size_t part = 0; part < part_count; ++part) {
    const size_t length = part_length(plans_[part], key.substr(at));
    if (length == 0) return Status(Code::kCorruption, "a stored key cannot be decoded as a key of its index");
    at += length;
  }
  *bytes = at;
  return Status::Ok();
}

bool KeyCodec::decodable(size_t part) const { return plans_[part].decodable; }

std::string key_after_prefix(std::string_view key) {
  while (!key.empty() && static_cast<uint8_t>(key.back()) == 0xFF) key.remove_suffix(1);
  std::string after(key);
  if (!after.empty()) after.back() = static_cast<char>(static_cast<uint8_t>(after.back()) + 1);
  return after;
}

}  // namespace atoll::codec
