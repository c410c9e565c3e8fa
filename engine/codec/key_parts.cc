// See key_parts.h.
#include "codec/key_parts.h"

#include <algorithm>

#include "codec/column_access.h"

namespace atoll::codec {

namespace {

constexpr uint64_t kSign64 = uint64_t{1} << 63;
constexpr uint32_t kSign32 = uint32_t{1} << 31;
constexpr uint64_t kInfinity64 = uint64_t{0x7FF} << 52;
constexpr uint32_t kInfinity32 = uint32_t{0xFF} << 23;

uint8_t *grow(std::string *out, size_t length) {
  const size_t old_length = out->size();
  out->resize(old_length + length);
  return reinterpret_cast<uint8_t *>(out->data()) + old_length;
}

}  // namespace

uint64_t ordered_double(uint64_t bits) {
  const uint64_t magnitude = bits & ~kSign64;
  if (magnitude == 0) return kSign64;
  if (magnitude > kInfinity64) return ~uint64_t{0};
  return bits & kSign64 ? ~bits : bits | kSign64;
}

uint64_t double_from_ordered(uint64_t ordered) { return ordered & kSign64 ? ordered & ~kSign64 : ~ordered; }

uint32_t ordered_float(uint32_t bits) {
  const uint32_t magnitude = bits & ~kSign32;
  if (magnitude == 0) return kSign32;
  if (magnitude > kInfinity32) return ~uint32_t{0};
  return bits & kSign32 ? ~bits : bits | kSign32;
}

uint32_t float_from_ordered(uint32_t ordered) { return ordered & kSign32 ? ordered & ~kSign32 : ~ordered; }

void append_binary_groups(std::string_view bytes, std::string *out) {
  const size_t groups = bytes.empty() ? 1 : (bytes.size() + kBinaryGroup - 1) / kBinaryGroup;
  uint8_t *to = grow(out, groups * (kBinaryGroup + 1));  // grow() fills with zeros
  const uint8_t *from = as_bytes(bytes);
  size_t left = bytes.size();
  for (; left > kBinaryGroup; left -= kBinaryGroup) {
    std::memcpy(to, from, kBinaryGroup);
    to[kBinaryGroup] = kMoreGroups;
    to += kBinaryGroup + 1;
    from += kBinaryGroup;
  }
  copy_bytes(to, from, left);
  to[kBinaryGroup] = static_cast<uint8_t>(left);
}

size_t skip_binary_groups(std::string_view key, uint8_t invert) {
  const uint8_t *bytes = as_bytes(key);
  for (size_t at = kBinaryGroup; at < key.size(); at += kBinaryGroup + 1) {
    const uint8_t count = bytes[at] ^ invert;
    if (count == kMoreGroups) continue;
    return count < kMoreGroups ? at + 1 : 0;
  }
  return 0;
}

size_t binary_groups_length(std::string_view groups, uint8_t invert) {
  const size_t full = groups.size() / (kBinaryGroup + 1) - 1;
  return full * kBinaryGroup + (as_bytes(groups)[groups.size() - 1] ^ invert);
}

size_t padded_group(size_t space_length, size_t wanted) {
  return std::max<size_t>(1, (wanted + space_length / 2) / space_length) * space_length;
}

size_t length_without_spaces(std::string_view weights, std::string_view space) {
  if (space.size() == 1)
    return length_without_pad(as_bytes(weights), weights.size(), static_cast<uint8_t>(space[0]));
  while (weights.ends_with(space)) weights.remove_suffix(space.size());
  return weights.size();
}

namespace {

// Compares the rest of a text, from any weight on, with endless spaces. from() is called for each group, with
// ascending places. The object remembers up to where the rest consists of spaces, so that it reads each
// weight only once. Without this, a text of many spaces would take quadratic time.
class RestOf {
 public:
  RestOf(std::string_view weights, std::string_view space) : weights_(weights), space_(space) {}

  Rest from(size_t place) {
    if (place >= weights_.size()) return kRestEnds;
    const uint8_t first = static_cast<uint8_t>(weights_[place]), space = static_cast<uint8_t>(space_[0]);
    if (first != space) return first < space ? kRestLess : kRestGreater;
    if (differs_at_ < place) differs_at_ = place;
    while (differs_at_ < weights_.size()) {
      const size_t length = std::min(space_.size(), weights_.size() - differs_at_);
      for (size_t i = 0; i < length; ++i) {
        const int order = static_cast<uint8_t>(weights_[differs_at_ + i]) - static_cast<uint8_t>(space_[i]);
        if (order != 0) return order < 0 ? kRestLess : kRestGreater;
      }
      differs_at_ += length;
    }
    return kRestEnds;
  }

 private:
  std::string_view weights_, space_;
  size_t differs_at_ = 0;  // the latest comparison found only spaces between its `place` and this offset
};

void fill_spaces(uint8_t *to, size_t length, std::string_view space) {
  if (space.size() == 1) {
    std::memset(to, space[0], length);
    return;
  }
  for (size_t i = 0; i < length; ++i) to[i] = static_cast<uint8_t>(space[i % space.size()]);
}

}  // namespace

void append_padded_groups(std::string_view weights, std::string_view space, size_t group, std::string *out) {
  const size_t groups = weights.empty() ? 1 : (weights.size() + group - 1) / group;
  uint8_t *to = grow(out, groups * (group + 1));
  const uint8_t *from = as_bytes(weights);
  RestOf rest(weights, space);
  size_t at = 0;
  for (; at + group <= weights.size(); at += group, to += group + 1) {
    copy_bytes(to, from + at, group);
    to[group] = rest.from(at + group);
  }
  const size_t left = weights.size() - at;
  if (left == 0 && !weights.empty()) return;
  copy_bytes(to, from + at, left);
  fill_spaces(to + left, group - left, space);
  to[group] = kRestEnds;
}

size_t skip_padded_groups(std::string_view key, size_t group, uint8_t invert) {
  const uint8_t *bytes = as_bytes(key);
  for (size_t at = group; at < key.size(); at += group + 1) {
    const uint8_t rest = bytes[at] ^ invert;
    if (rest == kRestEnds) return at + 1;
    if (rest != kRestLess && rest != kRestGreater) return 0;
  }
  return 0;
}

size_t padded_groups_length(std::string_view groups, std::string_view space, uint8_t invert) {
  const size_t group = padded_group(space.size());
  const size_t full = groups.size() / (group + 1) - 1;
  const uint8_t *last = as_bytes(groups) + full * (group + 1);
  size_t length = group;
  for (size_t i = group; i-- > 0 && (last[i] ^ invert) == static_cast<uint8_t>(space[i % space.size()]);)
    length = i;
  return full * group + (length + space.size() - 1) / space.size() * space.size();
}

void copy_groups(std::string_view groups, size_t group, uint8_t invert, size_t length, uint8_t *to) {
  const uint8_t *from = as_bytes(groups);
  size_t at = 0;
  for (; at + group <= length; at += group, from += group + 1) copy_bytes(to + at, from, group);
  if (at < length) copy_bytes(to + at, from, length - at);
  if (invert == 0) return;
  for (size_t i = 0; i < length; ++i) to[i] ^= invert;
}

void invert_bytes(std::string *key, size_t from) {
  for (size_t i = from; i < key->size(); ++i) (*key)[i] = static_cast<char>(~(*key)[i]);
}

}  // namespace atoll::codec
