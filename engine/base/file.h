// Reads and writes small files as a whole, and lists and removes directories.
#pragma once

#include <dirent.h>
#include <ftw.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace atoll {

// Returns the content of the file; empty when the file does not exist or cannot be read.
inline std::string content_of(const std::filesystem::path &file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();  // unlike a stream iterator, this does not throw when reading fails
  return content.bad() ? std::string() : content.str();
}

// Returns the paths of all entries of a directory, in no order. *error, if it is given: why the list is not
// complete; a directory that does not exist has no entries. Throws std::bad_alloc when there is no memory.
// std::filesystem::directory_iterator then ends the process, because libstdc++ reads the next entry in a
// function that is noexcept.
inline std::vector<std::filesystem::path> entries_of(const std::filesystem::path &directory,
                                                     std::error_code *error = nullptr) {
  std::vector<std::filesystem::path> entries;
  struct Closer {
    void operator()(DIR *open) const { closedir(open); }
  };
  const std::unique_ptr<DIR, Closer> open(opendir(directory.c_str()));
  errno = open ? 0 : errno;
  while (const dirent *entry = open ? readdir(open.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") entries.push_back(directory / name);
    errno = 0;
  }
  if (error != nullptr) error->assign(errno, std::generic_category());
  return entries;
}

// Removes the file, or the directory and all that is in it. Links are removed, not followed. Returns why not
// all of it was removed; that it does not exist is no error. When there is no memory, the error says so,
// where std::filesystem::remove_all() ends the process.
inline std::error_code remove_tree(const std::filesystem::path &path) noexcept {
  constexpr int kOpenDirectoriesMax = 16;
  const auto remove_entry = [](const char *entry, const struct stat *, int, struct FTW *) {
    return ::remove(entry) == 0 || errno == ENOENT ? 0 : -1;
  };
  if (nftw(path.c_str(), remove_entry, kOpenDirectoriesMax, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT)
    return {};
  return {errno, std::generic_category()};
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
