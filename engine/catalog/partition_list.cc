#include "catalog/partition_list.h"

#include <algorithm>
#include <cstring>

namespace atoll::catalog {
namespace {

constexpr size_t kWord = 4;         // bytes of a word; each part of the file is padded to whole words
constexpr size_t kCountOffset = 8;  // of the number of partitions, after the length in words and a checksum
constexpr size_t kEnginesOffset = 12;

uint32_t word_at(std::string_view content, size_t offset) {
  uint32_t value = 0;
  std::memcpy(&value, content.data() + offset, kWord);
  return value;
}

size_t padded(size_t bytes) { return (bytes + kWord - 1) / kWord * kWord; }

}  // namespace

bool PartitionList::is_all_of(uint8_t engine) const {
  return std::all_of(engines.begin(), engines.end(), [engine](uint8_t one) { return one == engine; });
}

bool PartitionList::is_built_in() const {
  constexpr uint8_t kFirstDynamic = 45;  // DB_TYPE_FIRST_DYNAMIC, sql/handler.h: plugins begin here
  return std::all_of(engines.begin(), engines.end(),
                     [](uint8_t one) { return one > 0 && one < kFirstDynamic; });
}

std::optional<PartitionList> parse_partition_list(std::string_view content) {
  if (content.size() < kEnginesOffset) return std::nullopt;
  const size_t count = word_at(content, kCountOffset);
  const size_t names_offset = kEnginesOffset + padded(count) + kWord;
  if (count == 0 || count > content.size() || names_offset > content.size()) return std::nullopt;
  PartitionList list;
  for (size_t i = 0; i < count; i++)
    list.engines.push_back(static_cast<uint8_t>(content[kEnginesOffset + i]));
  for (size_t at = names_offset; list.names.size() < count;) {
    const size_t end = content.find('\0', at);
    if (end == std::string_view::npos) return std::nullopt;
    list.names.emplace_back(content.substr(at, end - at));
    at = end + 1;
  }
  return list;
}

}  // namespace atoll::catalog
