// For tests only: makes .par files.
#pragma once

#include <cstdint>
#include <string>

namespace atoll::plugin {

// Returns the content of a .par file of `count` partitions p0, p1, ..., as the server writes it. `engine`:
// the number of the engine of all these partitions.
inline std::string partition_list(uint8_t engine, size_t count) {
  const auto word = [](size_t value) {
    std::string bytes(4, '\0');
    bytes[0] = static_cast<char>(value);
    return bytes;
  };
  const auto padded = [](std::string bytes) {
    bytes.resize((bytes.size() + 3) / 4 * 4, '\0');
    return bytes;
  };
  std::string names;
  for (size_t i = 0; i < count; i++) names += "p" + std::to_string(i) + '\0';
  const std::string body = word(count) + padded(std::string(count, static_cast<char>(engine))) +
                           word(names.size()) + padded(names);
  return word(body.size() / 4 + 2) + "sum." + body;
}

}  // namespace atoll::plugin
