// Shows keys as text for people. Made for lists of locks, so the code is short and not fast.
#include <algorithm>

#include "base/bytes.h"
#include "codec/column_access.h"
#include "codec/key_codec.h"
#include "codec/key_parts.h"

namespace atoll::codec {

namespace {

std::string as_hex(std::string_view bytes) { return "X'" + to_hex(bytes) + "'"; }

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '\''; });
}

}  // namespace

std::string KeyCodec::text_of(std::string_view key) const {
  std::string text;
  const auto add = [&text](const std::string &part) { text += (text.empty() ? "" : ", ") + part; };
  for (size_t part = 0; part < parts_.size() && !key.empty(); ++part) {
    const size_t length = part_length(plans_[part], key);
    if (length == 0) break;
    add(text_of_part(key.substr(0, length), part));
    key.remove_prefix(length);
  }
  if (!key.empty()) add(as_hex(key));
  return "(" + text + ")";
}

std::string KeyCodec::text_of_part(std::string_view encoded, size_t index) const {
  const Plan &plan = plans_[index];
  std::string_view value = encoded;
  if (plan.marker) {
    if ((static_cast<uint8_t>(value[0]) ^ plan.invert) == 0) return "NULL";
    value.remove_prefix(1);
  }
  if (parts_[index].is_integer) {
    const uint64_t inverted = plan.invert ? ~uint64_t{0} : 0;
    const size_t unused_bits = 64 - 8 * size_t{plan.width};
    const uint64_t ordered = load_be_bytes(as_bytes(value), plan.width) ^ inverted;
    if (parts_[index].kind == KeyKind::kUnsigned)
      return std::to_string(ordered << unused_bits >> unused_bits);
    const uint64_t sign = uint64_t{0x80} << (8 * (plan.width - 1));
    return std::to_string(static_cast<int64_t>((ordered ^ sign) << unused_bits) >> unused_bits);
  }
  std::string text;
  return printable_part(value, index, &text) ? text : as_hex(encoded);
}

bool KeyCodec::printable_part(std::string_view groups, size_t index, std::string *out) const {
  const KeyPart &part = parts_[index];
  const Plan &plan = plans_[index];
  const bool padded = plan.shape == Shape::kPaddedGroups;
  if (!padded && plan.shape != Shape::kBinaryGroups) return false;
  if (part.kind == KeyKind::kText && !(part.collation->byte_order() && part.collation->single_level()))
    return false;
  std::string text(padded ? padded_groups_length(groups, plan.space, plan.invert)
                          : binary_groups_length(groups, plan.invert),
                   0);
  copy_groups(groups, padded ? plan.group : kBinaryGroup, plan.invert, text.size(),
              reinterpret_cast<uint8_t *>(text.data()));
  if (!is_printable(text)) return false;
  *out = "'" + text + "'";
  return true;
}

}  // namespace atoll::codec
