#include "cloudfs/file_name.h"

#include <charconv>
#include <cstdio>

namespace atoll::cloudfs {
namespace {

constexpr std::string_view kManifestPrefix = "MANIFEST-";
constexpr std::string_view kSharedDirectory = "shared/";
constexpr std::string_view kOptionsPrefix = "OPTIONS-";

bool parse_number(std::string_view digits, uint64_t *number) {
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *number);
  return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
}

bool parse_with_suffix(std::string_view name, std::string_view suffix, uint64_t *number) {
  return name.ends_with(suffix) && parse_number(name.substr(0, name.size() - suffix.size()), number);
}

}  // namespace

FileName parse_file_name(std::string_view directory, std::string_view path) {
  FileName result;
  if (path.size() <= directory.size() || !path.starts_with(directory)) return result;
  std::string_view name = path.substr(directory.size());
  if (name.front() != '/') return result;
  while (!name.empty() && name.front() == '/') name.remove_prefix(1);
  uint64_t number = 0;
  if (name.starts_with(kSharedDirectory) &&
      parse_with_suffix(name.substr(kSharedDirectory.size()), ".sst", &number))
    return {FileKind::kShared, number};
  if (name.empty() || name.find('/') != std::string_view::npos) return result;

  if (parse_with_suffix(name, ".sst", &number) || parse_with_suffix(name, ".blob", &number)) {
    return {FileKind::kTable, number};
  }
  if (parse_with_suffix(name, ".log", &number)) return {FileKind::kWal, number};
  if (name.starts_with(kManifestPrefix) && parse_number(name.substr(kManifestPrefix.size()), &number)) {
    return {FileKind::kManifest, number};
  }
  if (name.starts_with(kOptionsPrefix)) return {FileKind::kOptions, 0};
  if (name == "CURRENT") return {FileKind::kCurrent, 0};
  return result;
}

std::string shared_directory(std::string_view directory) {
  return std::string(directory) + "/" + std::string(kSharedDirectory.substr(0, kSharedDirectory.size() - 1));
}

std::string table_file_name(uint64_t number) {
  char name[32];
  std::snprintf(name, sizeof(name), "%06llu.sst", static_cast<unsigned long long>(number));
  return name;
}

bool parse_current(std::string_view content, uint64_t *manifest_number) {
  if (!content.ends_with('\n')) return false;
  content.remove_suffix(1);
  return content.starts_with(kManifestPrefix) &&
         parse_number(content.substr(kManifestPrefix.size()), manifest_number);
}

}  // namespace atoll::cloudfs
