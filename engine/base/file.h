// Small files, read whole.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace atoll {

// Empty when there is no such file or it cannot be read.
inline std::string content_of(const std::filesystem::path &file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();  // unlike an iterator it does not throw when reading fails
  return content.bad() ? std::string() : content.str();
}

// Replaces or makes the file. Returns false after a failure, which leaves an incomplete file.
inline bool write_content(const std::filesystem::path &file, const std::string &content) {
  std::ofstream out(file, std::ios::binary);
  out << content;
  out.close();
  return out.good();
}

}  // namespace atoll
