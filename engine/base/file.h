// Reads and writes small files as a whole.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace atoll {

// Returns the content of the file; empty when the file does not exist or cannot be read.
inline std::string content_of(const std::filesystem::path &file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();  // unlike a stream iterator, this does not throw when reading fails
  return content.bad() ? std::string() : content.str();
}

// Creates the file, or replaces its content. Returns false when writing fails; the file may then be
// incomplete.
inline bool write_content(const std::filesystem::path &file, const std::string &content) {
  std::ofstream out(file, std::ios::binary);
  out << content;
  out.close();
  return out.good();
}

}  // namespace atoll
