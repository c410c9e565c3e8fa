// Small files, read whole.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace atoll {

// Empty when there is no such file or it cannot be read.
inline std::string content_of(const std::filesystem::path &file) {
  std::ifstream in(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace atoll
