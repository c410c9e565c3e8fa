// See definition_files.h.
#include "plugin/recovery/definition_files.h"

#include <algorithm>
#include <system_error>

#include "base/file.h"

namespace atoll::plugin {

namespace fs = std::filesystem;

std::vector<fs::path> directories_in(const fs::path &directory) {
  std::vector<fs::path> directories = entries_of(directory);
  std::error_code error;
  std::erase_if(directories, [&](const fs::path &each) { return !fs::is_directory(each, error); });
  return directories;
}

// A .frm contains the name of the table's engine, after two bytes with the length of the name.
bool is_own(const std::string &frm, const std::optional<catalog::PartitionList> &list, uint8_t own_type) {
  return list ? list->is_all_of(own_type) : frm.find(std::string("\5\0ATOLL", 7)) != std::string::npos;
}

void each_own_definition(const fs::path &data_dir, uint8_t own_type,
                         const std::function<void(const OwnDefinition &)> &each) {
  for (const fs::path &database : directories_in(data_dir)) {
    for (const fs::path &file : entries_of(database)) {
      if (file.extension() != ".frm") continue;
      OwnDefinition found{file, database.filename().string(), file.stem().string(), content_of(file)};
      const auto list = catalog::parse_partition_list(content_of(fs::path(file).replace_extension(".par")));
      if (is_own(found.frm, list, own_type)) each(found);
    }
  }
}

}  // namespace atoll::plugin
